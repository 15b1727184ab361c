//! Sessions without a server: bytes and clock readings in, bytes and wants out.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{Progress, Session, SessionContext, Want};
use crate::clock::{Nanos, SECOND};
use crate::compile;
use crate::events::{Failure, FailureKind, RoleDone};
use crate::pace::{Control, Lockstep};
use crate::program::Role;
use crate::record::RoleRecord;
use crate::wire;

fn role(spec: Json) -> Role {
    compile::role(serde_json::from_value(spec).unwrap(), 0, &["shared".to_owned()]).unwrap()
}

fn query(ops: Json) -> Json {
    json!({"name": "query", "clients": 1, "scripts": [{"ops": ops}]})
}

/// A session past the barrier, with the record that it records on.
struct Fixture<'a> {
    session: Session<'a>,
    record: RoleRecord,
}

impl<'a> Fixture<'a> {
    fn new(role: &'a Role, control: &'a Control, lockstep: Option<(Arc<Lockstep>, usize)>) -> Fixture<'a> {
        let mut record = RoleRecord::of(role);
        let recorder = record.recorder();
        let mut session = Session::new(
            role,
            0,
            7,
            SessionContext {
                control,
                recorder,
                lockstep,
                keep_rows: true,
                windows: None,
                stretches: None,
                slices: None,
                local_time: None,
            },
        );
        assert!(!session.prepare().unwrap());
        assert_eq!(session.advance(0), Want::Finished, "no start ops");
        record.begin(0);
        session.open(0, 0);
        Fixture { session, record }
    }

    /// What the session sends next, at `now`.
    fn sent(&mut self, now: Nanos) -> String {
        assert_eq!(self.session.advance(now), Want::Exchange);
        let text = String::from_utf8_lossy(&self.session.out).into_owned();
        self.session.out.clear();
        text
    }

    fn answer(&mut self, bytes: &[u8], now: Nanos) -> Result<Progress, Failure> {
        self.session.take_in(bytes, now)
    }

    fn done(&mut self) -> RoleDone {
        self.record.collect(1_000);
        self.record.done(1.0)
    }
}

#[test]
fn an_answer_that_goes_on_long_after_the_step_ends_it() {
    let role = role(query(json!([{"sql": ["SELECT 1"], "name": "one"}])));
    let control = control().with_answer_overtime(SECOND);
    let mut fixture = Fixture::new(&role, &control, None);
    control.open(0, SECOND);
    fixture.sent(1);
    let mut row = Vec::new();
    wire::message(&mut row, b'D', |out| out.extend_from_slice(&[0, 0]));
    assert_eq!(fixture.answer(&row, 2 * SECOND - 1).unwrap(), Progress::More);
    let failure = fixture.answer(&row, 2 * SECOND).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Overtime);
    assert_eq!(failure.statement.as_deref(), Some("SELECT 1"));
}

fn complete(tag: &str) -> Vec<u8> {
    let mut out = Vec::new();
    wire::message(&mut out, b'C', |out| wire::cstr(out, tag.as_bytes()));
    wire::message(&mut out, b'Z', |out| out.push(b'I'));
    out
}

fn error(sqlstate: &str, status: u8) -> Vec<u8> {
    let mut out = Vec::new();
    wire::message(&mut out, b'E', |out| {
        for (code, text) in [(b'S', "ERROR"), (b'C', sqlstate), (b'M', "no luck")] {
            out.push(code);
            wire::cstr(out, text.as_bytes());
        }
        out.push(0);
    });
    wire::message(&mut out, b'Z', |out| out.push(status));
    out
}

fn rows(column: &str, values: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::message(&mut out, b'T', |out| {
        out.extend_from_slice(&1u16.to_be_bytes());
        wire::cstr(out, column.as_bytes());
        out.extend_from_slice(&[0; 18]);
    });
    for value in values {
        wire::message(&mut out, b'D', |out| {
            out.extend_from_slice(&1u16.to_be_bytes());
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value.as_bytes());
        });
    }
    out.extend(complete(&format!("SELECT {}", values.len())));
    out
}

fn control() -> Control {
    Control::new(0, None)
}

#[test]
fn an_answer_may_come_in_any_pieces() {
    let role = role(query(json!([{"sql": ["SELECT 1"], "name": "one"}])));
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    assert!(bench.sent(10).contains("SELECT 1"));
    let answer = rows("one", &["1"]);
    for byte in &answer[..answer.len() - 1] {
        assert_eq!(bench.answer(&[*byte], 20).unwrap(), Progress::More);
    }
    assert_eq!(bench.answer(&answer[answer.len() - 1..], 2_000_010).unwrap(), Progress::Whole);
    bench.sent(2_000_010);
    let done = bench.done();
    assert_eq!((done.counts.operations, done.counts.rows), (1, 1));
    assert!((done.latency.max - 0.002).abs() < 1e-9);
}

#[test]
fn what_runs_before_is_neither_timed_nor_counted() {
    let spec = json!({"name": "delete", "clients": 1, "counts": "statements", "scripts": [{
        "before": [{"every": 3, "first": true, "ops": [
            {"sql": ["SELECT min(id) FROM t"], "name": "min", "into": ["shared"], "counted": false}]}],
        "ops": [{"sql": ["DELETE FROM t WHERE id >= ", {"expr": ":shared"}], "name": "delete"},
                {"set": "shared", "expr": ":shared + 5"}]}]});
    let role = role(spec);
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    let mut texts = Vec::new();
    for at in 0..7u64 {
        let now = at * 1_000_000;
        let text = bench.sent(now);
        let answer = if text.contains("min") { rows("min", &["100"]) } else { complete("DELETE 5") };
        texts.push(text);
        bench.answer(&answer, now + 1_000_000).unwrap();
    }
    bench.session.advance(7_000_000);
    let deletes: Vec<_> = texts.iter().filter(|t| t.contains("DELETE")).collect();
    assert!(deletes[0].contains(">= 100") && deletes[1].contains(">= 105"), "{texts:?}");
    // The third delete reads the minimum again first.
    assert!(texts[3].contains("min") && texts[4].contains(">= 100"), "{texts:?}");
    let done = bench.done();
    assert_eq!((done.counts.operations, done.counts.rows), (5, 25));
    let counts: Vec<_> = done.statements_by_name.iter().map(|s| (s.name.as_str(), s.count)).collect();
    assert_eq!(counts, [("min", 2), ("delete", 5)]);
    assert!((done.latency.max - 0.001).abs() < 1e-9, "the minimum is not in the latency");
}

#[test]
fn a_late_start_counts_from_when_it_was_due() {
    let mut spec = query(json!([{"sql": ["SELECT 1"], "name": "one"}]));
    spec["rate"] = json!({"per_client": 10.0});
    let role = role(spec);
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    bench.sent(0);
    bench.answer(&complete("SELECT 1"), SECOND).unwrap();
    // The second was due at 0.1 s and starts at 1 s.
    bench.sent(SECOND);
    bench.answer(&complete("SELECT 1"), SECOND + 1_000).unwrap();
    bench.sent(SECOND + 1_000);
    let done = bench.done();
    assert!((done.latency.max - 1.0).abs() < 1e-9);
    assert!((done.latency.mean - (1.0 + 0.900_001) / 2.0).abs() < 1e-6, "{}", done.latency.mean);
}

#[test]
fn an_early_start_waits() {
    let mut spec = query(json!([{"sql": ["SELECT 1"], "name": "one"}]));
    spec["rate"] = json!({"per_client": 2.0});
    let role = role(spec);
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    bench.sent(0);
    bench.answer(&complete("SELECT 1"), 1_000).unwrap();
    assert_eq!(bench.session.advance(1_000), Want::Wait(SECOND / 2));
}

#[test]
fn a_retried_transaction_repeats_its_values() {
    let mut spec = query(json!([
        {"set": "x", "expr": "random(1, 1000000000)"},
        {"sql": ["BEGIN"], "name": "begin"},
        {"sql": ["UPDATE t SET v = ", {"expr": ":x"}], "name": "update"}]));
    spec["retry"] = json!({"sqlstates": ["40001"], "max_tries": 2});
    let role = role(spec);
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    let mut updates = Vec::new();
    for _ in 0..2 {
        bench.sent(0);
        bench.answer(&complete("BEGIN"), 0).unwrap();
        updates.push(bench.sent(0));
        bench.answer(&error("40001", b'E'), 0).unwrap();
        assert!(bench.sent(0).contains("ROLLBACK"));
        bench.answer(&complete("ROLLBACK"), 0).unwrap();
    }
    assert_eq!(updates[0], updates[1]);
    bench.sent(0);
    bench.answer(&complete("BEGIN"), 0).unwrap();
    assert_ne!(bench.sent(0), updates[0], "the next transaction draws anew");
    let done = bench.done();
    assert_eq!((done.counts.errors, done.counts.retries, done.counts.transactions), (1, 1, 0));
}

#[test]
fn another_error_ends_the_step_with_the_servers_words() {
    let role = role(query(json!([{"sql": ["SELECT ", {"expr": "1 + 1"}], "name": "sum"}])));
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    bench.sent(0);
    let failure = bench.answer(&error("42P01", b'I'), 0).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Sql);
    assert_eq!(failure.sqlstate.as_deref(), Some("42P01"));
    assert_eq!(failure.message, "no luck");
    assert_eq!(failure.statement.as_deref(), Some("SELECT $1"));
}

#[test]
fn gset_takes_one_row_and_only_one() {
    let text = "SELECT 41 AS n \\gset p_\nSELECT :p_n + 1;\n";
    let spec = json!({"name": "query", "clients": 1, "scripts": [{"name": "s", "text": text}]});
    let role = role(spec);
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    bench.sent(0);
    bench.answer(&rows("n", &["41"]), 0).unwrap();
    assert!(bench.sent(0).contains("SELECT 41 + 1"));
    bench.answer(&complete("SELECT 1"), 0).unwrap();
    bench.sent(0);
    let failure = bench.answer(&rows("n", &["1", "2"]), 0).unwrap_err();
    assert!(failure.message.contains("one row"), "{}", failure.message);
}

#[test]
fn a_column_without_a_usable_name_is_refused() {
    let text = "SELECT 1 \\gset\n";
    let role = role(json!({"name": "query", "clients": 1, "scripts": [{"name": "s", "text": text}]}));
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    bench.sent(0);
    let failure = bench.answer(&rows("?column?", &["1"]), 0).unwrap_err();
    assert!(failure.message.contains("?column?"), "{}", failure.message);
}

#[test]
fn a_pipeline_is_one_exchange() {
    let text = "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n";
    let spec = json!({"name": "query", "clients": 1, "mode": "extended", "prepare": "lazy",
               "counts": "statements", "scripts": [{"name": "s", "text": text}]});
    let role = role(spec);
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    let sent = bench.sent(0);
    assert!(sent.contains("SELECT 1") && sent.contains("SELECT 2"));
    let mut answer = Vec::new();
    for _ in 0..2 {
        wire::message(&mut answer, b'C', |out| wire::cstr(out, b"SELECT 1"));
    }
    wire::message(&mut answer, b'Z', |out| out.push(b'I'));
    assert_eq!(bench.answer(&answer, 5).unwrap(), Progress::Whole);
    bench.sent(5);
    let done = bench.done();
    assert_eq!((done.counts.operations, done.counts.transactions, done.counts.rows), (2, 1, 2));
}

#[test]
fn lockstep_blocks_the_side_that_is_ahead() {
    let role = role(query(json!([{"sql": ["SELECT 1"], "name": "one"}])));
    let control = control();
    let pair = Arc::new(Lockstep::new(2, 8));
    let mut bench = Fixture::new(&role, &control, Some((Arc::clone(&pair), 0)));
    for _ in 0..8 {
        bench.sent(0);
        bench.answer(&complete("SELECT 1"), 0).unwrap();
    }
    assert_eq!(bench.session.advance(0), Want::Blocked);
    pair.finished_one(1);
    bench.sent(0);
}

#[test]
fn a_sleep_is_waited_for_once() {
    let role = role(query(json!([{"sleep": "5", "unit": "ms"}, {"sql": ["SELECT 1"], "name": "one"}])));
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    assert_eq!(bench.session.advance(0), Want::Wait(5_000_000));
    bench.sent(5_000_000);
}

#[test]
fn the_end_of_the_step_lets_a_transaction_finish() {
    let ops = json!([{"sql": ["BEGIN"], "name": "b"}, {"sql": ["COMMIT"], "name": "c"}]);
    let role = role(query(ops));
    let control = control();
    let mut bench = Fixture::new(&role, &control, None);
    bench.sent(0);
    control.stop();
    bench.answer(&complete("BEGIN"), 5).unwrap();
    assert!(bench.sent(5).contains("COMMIT"));
    bench.answer(&complete("COMMIT"), 9).unwrap();
    assert_eq!(bench.session.advance(9), Want::Finished);
    assert_eq!(bench.done().counts.transactions, 1);
}
