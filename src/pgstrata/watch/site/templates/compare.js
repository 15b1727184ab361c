// Two commits of a watch beside each other. Every number, word and colour was computed when the page was made.
(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("compared").textContent);
  var earlier = document.getElementById("earlier"), later = document.getElementById("later");
  var proven = document.getElementById("proven"), said = document.getElementById("said");
  var body = document.querySelector("#differences tbody");
  var buttons = Array.from(document.querySelectorAll("[data-sort]"));
  var order = { key: "name", down: false };
  var SIGNS = { good: ["▲", ", better"], bad: ["▼", ", worse"] };
  var NOTHING = { change: null, text: "no change is proven", mark: "" };
  var UNKNOWN = { change: null, text: "a change may lie on either side of one of them", mark: "" };

  function element(tag, text, css) {
    var made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (css) made.className = css;
    return made;
  }

  function options(select) {
    data.commits.forEach(function (commit, place) {
      var option = element("option", commit.name + " " + commit.date + " " + commit.subject);
      option.value = String(place);
      select.appendChild(option);
    });
  }

  function difference(step, a, b) {
    var from = step.levels[a], to = step.levels[b];
    if (from === null || to === null) return UNKNOWN;
    return from === to ? NOTHING : step.differences[from + "-" + to];
  }

  function rows(a, b) {
    return data.steps.map(function (step) {
      var between = difference(step, a, b), before = step.values[a], after = step.values[b];
      return { name: step.name, href: step.href, text: between.text, mark: between.mark, change: between.change,
        before: before && before[0], after: after && after[0], values: [before, after] };
    });
  }

  function compared(x, y) {
    var a = x[order.key], b = y[order.key];
    if (a === null || b === null) return (a === null) - (b === null);  // what has no number comes last
    var by = typeof a === "string" ? a.localeCompare(b) : a - b;
    return order.down ? -by : by;
  }

  function valueCell(value) {
    if (!value) return element("td", "no data", "right missing");
    var cell = element("td", signed(value[0]), "right");
    cell.appendChild(element("small", signed(value[1]) + " … " + signed(value[2])));
    return cell;
  }

  function signed(number) {
    var text = Math.abs(number).toFixed(2);
    return (number < 0 && Number(text) ? "-" : "+") + text;
  }

  function line(row) {
    var made = element("tr"), head = element("th", undefined, "left"), link = element("a", row.name);
    head.scope = "row";
    link.href = row.href;
    head.appendChild(link);
    var cell = element("td", undefined, "right " + row.mark);
    if (row.mark) {
      var sign = element("b", SIGNS[row.mark][0], "sign");
      sign.setAttribute("aria-hidden", "true");
      cell.appendChild(sign);
    }
    cell.appendChild(document.createTextNode(row.text));
    if (row.mark) cell.appendChild(element("span", SIGNS[row.mark][1], "aside"));
    [head, cell, valueCell(row.values[0]), valueCell(row.values[1])].forEach(function (c) { made.appendChild(c); });
    return made;
  }

  function draw() {
    var a = Math.min(earlier.value, later.value), b = Math.max(earlier.value, later.value);
    var all = rows(a, b), moved = all.filter(function (row) { return row.mark; });
    body.textContent = "";
    (proven.checked ? moved : all).sort(compared).forEach(function (row) { body.appendChild(line(row)); });
    said.textContent = data.commits[b].name + " against " + data.commits[a].name + ": " +
      (moved.length ? moved.length + " of " + all.length + " steps moved." : "no step is proven to have moved.");
    buttons.forEach(function (button) {
      var way = button.dataset.sort === order.key ? (order.down ? "descending" : "ascending") : "none";
      button.closest("th").setAttribute("aria-sort", way);
    });
    history.replaceState(null, "", "#" + data.commits[a].id + ".." + data.commits[b].id);
  }

  function place(id) {
    return data.commits.findIndex(function (commit) { return id.length >= 7 && commit.id.startsWith(id); });
  }

  function asked() {
    var ids = location.hash.slice(1).split(".."), first = place(ids[0] || ""), last = place(ids[1] || "");
    earlier.value = String(first < 0 ? 0 : first);
    later.value = String(last < 0 ? data.commits.length - 1 : last);
    draw();
  }

  [earlier, later].forEach(options);
  [earlier, later, proven].forEach(function (control) { control.addEventListener("change", draw); });
  buttons.forEach(function (button) {
    button.addEventListener("click", function () {
      order = { key: button.dataset.sort, down: order.key === button.dataset.sort && !order.down };
      draw();
    });
  });
  window.addEventListener("hashchange", asked);
  asked();
})();
