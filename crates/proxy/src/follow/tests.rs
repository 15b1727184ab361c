use super::*;
use crate::block::Mark;

/// A follower, and what it has recorded.
struct Talk {
    follower: Follower,
    block: Block,
    now: u64,
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

fn bind(name: &str, value: &str) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\0\0\x01").into_bytes();
    body.extend_from_slice(&(value.len() as u32).to_be_bytes());
    body.extend_from_slice(value.as_bytes());
    body.extend_from_slice(&[0, 0]);
    message(b'B', &body)
}

fn execute() -> Vec<u8> {
    message(b'E', b"\0\0\0\0\0")
}

fn failure(code: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0C{code}\0Mno\0\0").as_bytes())
}

fn complete(tag: &str) -> Vec<u8> {
    message(b'C', format!("{tag}\0").as_bytes())
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

fn ready(status: &str) -> Vec<u8> {
    message(b'Z', status.as_bytes())
}

fn none(tag: u8) -> Vec<u8> {
    message(tag, b"")
}

impl Talk {
    fn new() -> Talk {
        let about = About {
            id: 0,
            begin: 0,
            database: b"d".to_vec(),
            encoding: b"UTF8".to_vec(),
            settings: Vec::new(),
            mark: Mark::default(),
        };
        Talk { follower: Follower::new(about, &Budget::new(1 << 20)), block: Block::new(), now: 1000 }
    }

    fn client(&mut self, messages: &[Vec<u8>]) -> &mut Talk {
        self.now += 10;
        self.follower.of_client(&messages.concat(), self.now).unwrap();
        self
    }

    fn server(&mut self, messages: &[Vec<u8>]) -> &mut Talk {
        self.now += 10;
        self.follower.of_server(&messages.concat(), self.now, &mut self.block).unwrap();
        self
    }

    fn holds(&self, text: &str) -> bool {
        self.block.bytes().windows(text.len()).any(|place| place == text.as_bytes())
    }

    fn waits(&self) -> usize {
        self.follower.session.asked.len()
    }
}

#[test]
fn a_plain_query_is_recorded_at_its_end() {
    let mut talk = Talk::new();
    talk.client(&[message(b'Q', b"SELECT 1; SELECT 2\0")]);
    talk.server(&[message(b'D', b"\0\0"), complete("SELECT 1"), complete("SELECT 1")]);
    assert_eq!(talk.block.statements, 0);
    talk.server(&[ready("I")]);
    assert_eq!((talk.block.statements, talk.waits()), (1, 0));
    assert!(talk.holds("SELECT 1; SELECT 2"));
}

#[test]
fn a_pipeline_that_fails_records_what_failed_and_forgets_what_was_skipped() {
    let mut talk = Talk::new();
    talk.client(&[
        parse("a", "SELECT $1"),
        bind("a", "fails"),
        execute(),
        parse("b", "SELECT 2"),
        bind("b", "skipped"),
        execute(),
        sync(),
    ]);
    talk.server(&[none(b'1'), none(b'2'), failure("22012"), ready("I")]);
    assert_eq!((talk.block.statements, talk.waits()), (1, 0));
    assert!(talk.holds("22012") && talk.holds("fails") && !talk.holds("skipped"));
    // The server does not know b, and so it fails here, too.
    assert!(talk.follower.session.prepared.contains_key(&b"a"[..]));
    assert!(!talk.follower.session.prepared.contains_key(&b"b"[..]));
}

#[test]
fn what_comes_after_an_error_and_before_the_sync_is_skipped() {
    let mut talk = Talk::new();
    talk.client(&[parse("", "SELEC"), none(b'H')]);
    talk.server(&[failure("42601")]);
    talk.client(&[bind("", "x"), execute()]);
    talk.client(&[sync(), message(b'Q', b"SELECT 3\0")]);
    talk.server(&[ready("I"), complete("SELECT 1"), ready("I")]);
    assert_eq!((talk.block.statements, talk.waits()), (2, 0));
    assert!(talk.holds("SELEC") && talk.holds("42601") && talk.holds("SELECT 3"));
}

#[test]
fn a_sync_before_rows_are_copied_in_is_not_waited_for() {
    let mut talk = Talk::new();
    talk.client(&[parse("", "COPY t FROM STDIN"), bind("", "x"), execute(), sync()]);
    talk.server(&[none(b'1'), none(b'2'), message(b'G', b"\0\0\0")]);
    talk.client(&[message(b'd', b"1\n"), none(b'c'), sync()]);
    talk.server(&[complete("COPY 1"), ready("I")]);
    talk.client(&[message(b'Q', b"SELECT 4\0")]);
    talk.server(&[complete("SELECT 1"), ready("I")]);
    assert_eq!((talk.block.statements, talk.waits()), (2, 0));
}

#[test]
fn a_client_that_copies_without_waiting_is_followed_as_well() {
    let mut talk = Talk::new();
    talk.client(&[message(b'Q', b"COPY t FROM STDIN\0"), message(b'd', b"1\n"), none(b'c')]);
    talk.client(&[message(b'Q', b"SELECT 5\0")]);
    talk.server(&[message(b'G', b"\0\0\0"), complete("COPY 1"), ready("I")]);
    talk.server(&[complete("SELECT 1"), ready("I")]);
    assert_eq!((talk.block.statements, talk.waits()), (2, 0));
}

#[test]
fn passwords_are_not_written() {
    let mut talk = Talk::new();
    talk.client(&[message(b'p', b"hunter2\0"), message(b'Q', b"ALTER ROLE a PASSWORD 'hunter2'\0")]);
    talk.server(&[complete("ALTER ROLE"), ready("I")]);
    assert!(!talk.holds("hunter2") && !talk.block.is_empty());
    assert_eq!(talk.block.statements, 0);
}

#[test]
fn a_dropped_statement_is_forgotten() {
    let mut talk = Talk::new();
    talk.client(&[parse("a", "SELECT 1"), parse("b", "SELECT 1"), sync()]);
    talk.server(&[none(b'1'), none(b'1'), ready("I")]);
    talk.client(&[message(b'Q', b"DEALLOCATE \"a\";\0")]);
    talk.server(&[complete("DEALLOCATE"), ready("I")]);
    assert_eq!(talk.follower.session.prepared.len(), 1);
    talk.client(&[message(b'Q', b"DISCARD ALL\0")]);
    talk.server(&[complete("DISCARD ALL"), ready("I")]);
    assert!(talk.follower.session.prepared.is_empty());
}

#[test]
fn values_of_a_long_bind_are_left_out_and_the_next_are_not() {
    let mut talk = Talk::new();
    let long = "x".repeat(2 << 20);
    talk.client(&[parse("a", "SELECT $1"), sync()]).server(&[none(b'1'), ready("I")]);
    let whole = [bind("a", &long), execute(), sync()].concat();
    for piece in whole.chunks(1000) {
        talk.follower.of_client(piece, 5).unwrap();
    }
    talk.server(&[none(b'2'), complete("SELECT 1"), ready("I")]);
    assert_eq!((talk.block.statements, talk.holds("xxxx")), (0, false));
    talk.client(&[bind("a", "short"), execute(), sync()]);
    talk.server(&[none(b'2'), complete("SELECT 1"), ready("I")]);
    assert!(talk.holds("short"));
    assert_eq!(talk.waits(), 0);
}

#[test]
fn parts_of_a_portal_are_parts_of_its_statement() {
    let mut talk = Talk::new();
    talk.client(&[parse("", "SELECT $1"), bind("", "v"), execute(), none(b'H')]);
    talk.server(&[none(b'1'), none(b'2'), message(b'D', b"\0\0"), none(b's')]);
    talk.client(&[execute(), sync()]).server(&[complete("SELECT 1"), ready("I")]);
    assert_eq!((talk.block.statements, talk.waits()), (2, 0));
    // Its values are written once.
    assert_eq!(talk.block.bytes().iter().filter(|byte| **byte == b'v').count(), 1);
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn asked() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(parse("a", "SELECT $1")),
            Just(bind("a", "v")),
            Just(execute()),
            Just(sync()),
            Just(message(b'Q', b"SELECT 1\0")),
            Just(message(b'C', b"Sa\0")),
            Just(message(b'D', b"Sa\0")),
            Just(none(b'c')),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|body| message(b'B', &body)),
        ]
    }

    fn said() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::sample::select(&b"123nTsIGcH"[..]).prop_map(none),
            Just(complete("SELECT 1")),
            Just(complete("DEALLOCATE")),
            Just(failure("42601")),
            Just(ready("I")),
            Just(message(b'D', b"\0\x01\0\0\0\x01x")),
        ]
    }

    proptest! {
        /// Whatever both sides say, nothing panics, and at the end of the session nothing is held.
        #[test]
        fn any_talk_is_followed_or_given_up(
            turns in prop::collection::vec(prop_oneof![asked().prop_map(Ok), said().prop_map(Err)], 0..60)
        ) {
            let budget = Budget::new(1 << 20);
            let mut talk = Talk::new();
            talk.follower.session.budget = budget.clone();
            for (now, turn) in turns.iter().enumerate() {
                let followed = match turn {
                    Ok(bytes) => talk.follower.of_client(bytes, now as u64),
                    Err(bytes) => talk.follower.of_server(bytes, now as u64, &mut talk.block),
                };
                if followed.is_err() {
                    break;
                }
            }
            talk.follower.end(99, &mut talk.block, false);
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
