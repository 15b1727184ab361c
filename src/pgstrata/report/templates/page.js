(function () {
  "use strict";
  var hidden = new Set();
  var drawn = new Set();

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Figures come without colours of paper, ink and grid: they follow the page's scheme.
  function dressed(layout) {
    var ink = css("--ink"), quiet = css("--quiet"), line = css("--line"), paper = css("--paper");
    var made = Object.assign({}, layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--strong"), activecolor: css("--accent") },
      hoverlabel: { bgcolor: paper, bordercolor: line, font: { color: ink, size: 12 } }
    });
    if (made.legend) made.legend = Object.assign({ itemwidth: 30, font: { size: 12 } }, made.legend);
    Object.keys(layout).forEach(function (key) {
      if (/^[xy]axis\d*$/.test(key)) {
        made[key] = Object.assign({ gridcolor: line, linecolor: line, tickcolor: line }, layout[key]);
        made[key].tickfont = Object.assign({ color: quiet }, layout[key].tickfont);
      }
    });
    (made.annotations || []).forEach(function (a) { a.font = Object.assign({ size: 11 }, a.font, { color: quiet }); });
    (made.shapes || []).forEach(function (s) { s.visible = !(s.name && hidden.has(s.name)); });
    return made;
  }

  function figure(plot) {
    var made = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
    made.data.forEach(function (t) {
      if (t.meta && hidden.has(t.meta)) t.visible = false;
      else if (t.meta && shown.has(t.meta)) delete t.visible;
    });
    made.layout = dressed(made.layout);
    return made;
  }

  var shown = new Set();
  var settings = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  function draw(plot) {
    if (typeof Plotly === "undefined") {
      plot.innerHTML = '<p class="failed">plotly.min.js is missing beside this page, so charts cannot be drawn. The tables hold the same figures.</p>';
      return;
    }
    var made = figure(plot);
    plot.querySelectorAll("noscript").forEach(function (n) { n.remove(); });
    Plotly.react(plot, made.data, made.layout, settings);
    drawn.add(plot);
  }

  function redraw() { drawn.forEach(draw); }

  var plots = Array.from(document.querySelectorAll(".plot"));
  function begin() {
    if (typeof Plotly === "undefined") plots.forEach(draw);
    var watcher = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
      });
    }, { rootMargin: "600px 0px" });
    plots.forEach(function (plot) { watcher.observe(plot); });
    document.querySelectorAll("[data-switch]").forEach(function (chip) {
      chip.addEventListener("click", function () { toggle(chip); });
    });
    document.querySelectorAll("table.sortable").forEach(sortable);
    here();
  }

  // A table that decides: its heads sort it, and a box leaves what is proven.
  function sortable(table) {
    var body = table.tBodies[0], rows = Array.from(body.rows);
    var heads = Array.from(table.tHead.rows[0].cells);
    function key(row, index) {
      var cell = row.cells[index], value = cell.dataset.value;
      return value === undefined ? cell.textContent.trim() : Number(value);
    }
    heads.forEach(function (head, index) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) button.appendChild(head.firstChild);
      head.appendChild(button);
      button.addEventListener("click", function () {
        var up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.sort(function (a, b) {
          var x = key(a, index), y = key(b, index);
          if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;  // what has no number comes last
          var order = x < y ? -1 : x > y ? 1 : 0;
          return up ? order : -order;
        }).forEach(function (row) { body.appendChild(row); });
      });
    });
    var label = document.createElement("label"), box = document.createElement("input");
    label.className = "filter";
    box.type = "checkbox";
    label.append(box, "proven only");
    box.addEventListener("change", function () {
      rows.forEach(function (row) { row.hidden = box.checked && !row.querySelector(".good, .bad, .same"); });
    });
    table.closest("figure").querySelector(".scroll").before(label);
  }

  function toggle(chip) {
    var name = chip.dataset.switch, off = chip.getAttribute("aria-pressed") === "true";
    chip.setAttribute("aria-pressed", String(!off));
    if (off) { hidden.add(name); shown.delete(name); } else { hidden.delete(name); shown.add(name); }
    document.querySelectorAll("[data-variant]").forEach(function (node) {
      if (node.dataset.variant === name) node.classList.toggle("off", off);
    });
    redraw();
  }

  // The navigation shows where the reader is.
  function here() {
    var links = new Map();
    document.querySelectorAll(".contents a").forEach(function (a) { links.set(a.getAttribute("href").slice(1), a); });
    var watcher = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        var link = links.get(entry.target.id);
        if (link) link.classList.toggle("here", entry.isIntersecting);
      });
    }, { rootMargin: "-10% 0px -80% 0px" });
    links.forEach(function (_, id) {
      var target = document.getElementById(id);
      if (target) watcher.observe(target);
    });
  }

  // A link into a folded part opens it.
  function unfold() {
    var target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") node.open = true;
    }
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);

  // On paper everything is open and drawn, at the width of the page.
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.from(document.querySelectorAll("details:not([open]):not(.how)"));
    closed.forEach(function (d) { d.open = true; });
    plots.forEach(function (plot) { plot.style.width = "680px"; draw(plot); });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (d) { d.open = false; });
    plots.forEach(function (plot) { plot.style.width = ""; });
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  document.addEventListener("DOMContentLoaded", function () {
    begin();
    if (location.hash) unfold();
  });
})();
