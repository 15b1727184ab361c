//! A replay from its spec to `done`: who connects when, and what is said of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::set_current_timer_slack;

use super::captured::{Captured, Entry};
use super::pace::ReplayPace;
use super::session::ReplaySession;
use super::tally::{ReplayTally, ReplayTotals};
use super::worker::{Connected, Listener, Mailbox, Worker};
use crate::barrier::allow_files;
use crate::cancel;
use crate::clock::{self, Nanos, SECOND};
use crate::connect::{self, Server};
use crate::events::{EngineName, Event, Events, Failure, FailureKind, ReadyRole, Replayed};
use crate::pace::Control;
use crate::record::RoleRecord;
use crate::run::{Message, later, listen};
use crate::spec::{ReplaySpec, Spec, VERSION};

/// Connections are opened so long before they are due.
const LEAD: Nanos = SECOND / 2;
/// Threads that open them.
const CONNECTORS: usize = 4;
/// How often failures of other threads are looked for.
const GLANCE: Duration = Duration::from_millis(50);
/// After a failure, answers are waited for this long.
const PATIENCE: f64 = 10.0;

/// What the threads of a replay have in common.
struct Shared {
    failures: Mutex<Vec<Failure>>,
    /// Sessions that are being connected or have been, and not ended.
    open: Mutex<u64>,
    less: Condvar,
    /// So many sessions have a connection, or will never have one.
    connected: AtomicU64,
    /// Connections that were lost, for those who look whether the server is still there.
    lost: Mutex<Option<Failure>>,
}

impl Listener for Shared {
    fn ended(&self) {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        *open = open.saturating_sub(1);
        self.less.notify_all();
    }

    fn lost(&self, failure: Failure) {
        self.lost.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(failure);
    }

    fn failed(&self, failure: Failure) {
        self.failures.lock().unwrap_or_else(|e| e.into_inner()).push(failure);
    }
}

impl Shared {
    /// One more session, when there are fewer than `most`; false where the step is over before that.
    fn enter(&self, most: u64, control: &Control) -> bool {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        while *open >= most {
            if control.over(clock::now()) {
                return false;
            }
            open = match self.less.wait_timeout(open, GLANCE) {
                Ok((open, _)) => open,
                Err(e) => e.into_inner().0,
            };
        }
        *open += 1;
        true
    }
}

/// Runs a replay; returns the exit code.
///
/// # Errors
/// The file cannot be read, or the server not be reached: before the clock has started.
pub fn step(spec: &Spec, replay: &ReplaySpec, events: &Events) -> Result<i32, Failure> {
    if replay.speed.is_some_and(|speed| !(speed > 0.0 && speed.is_finite())) {
        return Err(Failure::spec("the speed of a replay is not above 0"));
    }
    let mut file = Captured::open(&replay.file)?;
    file.skip(&replay.skip);
    let file = file;
    let database = match &replay.database {
        None => None,
        Some(name) => Some(file.database(name).ok_or_else(|| {
            Failure::spec(format!("the captured file has no session in a database {name:?}"))
        })?),
    };
    let server = Server::new(&spec.connection)?;
    let most = u64::from(replay.sessions.max(1));
    let threads = match spec.threads {
        0 => (replay.sessions as usize).div_ceil(64).clamp(1, cpus()),
        n => n,
    };
    allow_files(replay.sessions as usize * 2 + 256);
    let (sender, messages) = mpsc::channel();
    listen(sender.clone());
    let shared = Shared {
        failures: Mutex::default(),
        open: Mutex::default(),
        less: Condvar::new(),
        connected: AtomicU64::new(0),
        lost: Mutex::default(),
    };
    let control = Control::new(0, None);
    let failed = |e: std::io::Error| Failure::new(FailureKind::Io, e.to_string());
    let mailboxes = (0..threads).map(|_| Mailbox::new()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let tallies: Vec<ReplayTally> = (0..threads).map(|_| ReplayTally::new()).collect();
    let mut record = RoleRecord::replayed(replay.role.clone(), file.shapes.clone());
    let recorders: Vec<_> = (0..threads).map(|_| record.recorder()).collect();
    let begun = clock::now();
    let (queue, wanted) = mpsc::sync_channel::<(u64, Entry)>(CONNECTORS);
    let wanted = Mutex::new(wanted);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTORS {
            scope.spawn(|| connect_each(&wanted, &server, &file, &mailboxes, &shared));
        }
        let mut sessions = file.sessions().enumerate().filter(|(_, entry)| {
            entry.as_ref().map_or(true, |entry| database.is_none_or(|number| entry.database == number))
        });
        // Those of the beginning are there when it begins.
        let mut first = 0;
        let mut waiting = None;
        for (number, entry) in sessions.by_ref() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(failure) => end_with(events, failure),
            };
            let soon = replay.speed.map_or(first < most, |s| entry.begin as f64 * 1e3 / s <= LEAD as f64);
            if !soon {
                waiting = Some((number as u64, entry));
                break;
            }
            *shared.open.lock().unwrap_or_else(|e| e.into_inner()) += 1;
            first += 1;
            if queue.send((number as u64, entry)).is_err() {
                break;
            }
        }
        while shared.connected.load(Ordering::SeqCst) < first {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(failure) = shared.failures.lock().unwrap_or_else(|e| e.into_inner()).pop() {
            end_with(events, failure);
        }
        events.say(&Event::Ready {
            version: VERSION,
            driver: env!("CARGO_PKG_VERSION"),
            engine: EngineName::Epoll,
            threads,
            connect_seconds: clock::seconds(clock::now() - begun),
            roles: vec![ReadyRole { name: replay.role.clone(), clients: replay.sessions, pids: Vec::new() }],
        });
        let at = loop {
            match messages.recv() {
                Ok(Message::Start(at)) => break at,
                Ok(Message::Refused(failure)) => end_with(events, failure),
                Ok(Message::Close) | Err(_) => std::process::exit(0),
                Ok(_) => {}
            }
        };
        let pace = ReplayPace { speed: replay.speed, zero: clock::now().max(at) };
        let until = spec.seconds.map_or(Nanos::MAX, |s| pace.zero + clock::nanos(s));
        record.begin(pace.zero);
        tallies.iter().for_each(|tally| tally.begin(pace.zero));
        control.open(pace.zero, until);
        let (shared, control, mailboxes, tallies) = (&shared, &control, &mailboxes, &tallies);
        for ((mailbox, recorder), tally) in mailboxes.iter().zip(recorders).zip(tallies) {
            let sender = sender.clone();
            let fast = replay.speed.is_none() && replay.sessions >= 4;
            scope.spawn(move || {
                // Without this the kernel may wake a sleeper 50 µs late, and every lag has that in it.
                let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
                if fast {
                    crate::engine::uring::batch();
                }
                match Worker::new(mailbox, control, recorder, tally, shared, pace) {
                    Ok(mut worker) => worker.run(),
                    Err(e) => shared.failed(Failure::new(FailureKind::Io, e.to_string())),
                }
                let _ = sender.send(Message::Ended(Vec::new()));
            });
        }
        scope.spawn(move || {
            let rest = waiting.into_iter().map(Ok).chain(sessions.map(|(n, e)| e.map(|e| (n as u64, e))));
            dispatch(rest, &queue, replay, pace, shared, control);
            drop(queue);
            // Those that are being connected still come.
            while *shared.open.lock().unwrap_or_else(|e| e.into_inner()) > 0 && !control.over(clock::now()) {
                std::thread::sleep(GLANCE);
            }
            mailboxes.iter().for_each(Mailbox::close);
        });
        let mut coordinator = ReplayCoordinator {
            spec,
            events,
            control,
            messages: &messages,
            shared,
            server: &server,
            mailboxes,
            totals: ReplayTotals::new(tallies, &file.shapes),
            record: &mut record,
            pace,
            length: file.length,
        };
        let code = coordinator.run(threads, until);
        // Threads that hang in a call to a dead server cannot be joined.
        std::process::exit(code)
    })
}

/// Before the clock has started: threads that wait for what will not come would be waited for.
fn end_with(events: &Events, failure: Failure) -> ! {
    events.say(&Event::Error(failure));
    std::process::exit(1)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Opens connections for sessions as they come, until no more do.
fn connect_each<'a>(
    wanted: &Mutex<Receiver<(u64, Entry)>>,
    server: &Server,
    file: &'a Captured,
    mailboxes: &[Mailbox<'a>],
    shared: &Shared,
) {
    loop {
        let next = wanted.lock().unwrap_or_else(|e| e.into_inner()).recv();
        let Ok((number, entry)) = next else { return };
        let opened = connect::open(server).and_then(|opened| {
            let session = ReplaySession::new(file, entry, opened.inbox)?;
            opened.cancel.into_iter().for_each(cancel::remember);
            Ok(Connected { session, socket: opened.socket, tls: opened.tls, pid: opened.pid })
        });
        match opened {
            Ok(connected) => mailboxes[number as usize % mailboxes.len()].put(connected),
            Err(failure) => {
                shared.failed(failure);
                shared.ended();
            }
        }
        shared.connected.fetch_add(1, Ordering::SeqCst);
    }
}

/// Hands out the sessions that begin later: a little before their time, or when another one has ended.
fn dispatch(
    sessions: impl Iterator<Item = Result<(u64, Entry), Failure>>,
    queue: &SyncSender<(u64, Entry)>,
    replay: &ReplaySpec,
    pace: ReplayPace,
    shared: &Shared,
    control: &Control,
) {
    for next in sessions {
        let (number, entry) = match next {
            Ok(found) => found,
            Err(failure) => return shared.failed(failure),
        };
        let most = match pace.due(entry.begin) {
            Some(due) => {
                control.sleep_until(due.saturating_sub(LEAD));
                u64::MAX
            }
            None => u64::from(replay.sessions.max(1)),
        };
        if control.over(clock::now()) || !shared.enter(most, control) || queue.send((number, entry)).is_err()
        {
            return;
        }
    }
}

struct ReplayCoordinator<'a> {
    spec: &'a Spec,
    events: &'a Events,
    control: &'a Control,
    messages: &'a Receiver<Message>,
    shared: &'a Shared,
    server: &'a Server,
    mailboxes: &'a [Mailbox<'a>],
    totals: ReplayTotals<'a>,
    record: &'a mut RoleRecord,
    pace: ReplayPace,
    /// Microseconds of the original.
    length: u64,
}

impl ReplayCoordinator<'_> {
    /// From the start to `close`; returns the exit code.
    fn run(&mut self, mut workers: usize, until: Nanos) -> i32 {
        let cpu = clock::cpu_seconds();
        let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.events.say(&Event::Measuring { unix_time: unix_time.as_secs_f64() });
        let from = self.pace.zero;
        let overtime = self.spec.overtime_seconds;
        let planned = self.pace.due(self.length).unwrap_or(from).min(until);
        let (mut failed, mut stopped, mut said) = (false, false, 0);
        let mut give_up = Nanos::MAX;
        let mut moved = from;
        while workers > 0 {
            let now = clock::now();
            let due = from + (said + 1) * SECOND;
            if now >= due {
                said += 1;
                self.record.collect(said);
                self.say_second(said - 1, 1.0);
                continue;
            }
            if self.control.over(now) {
                self.mailboxes.iter().for_each(Mailbox::close);
            }
            moved = moved.max(self.record.last());
            // As long as answers come it goes on, however late: a slow server is what is to be seen.
            let patience = if now > planned || self.control.over(now) {
                later(moved.max(planned), overtime)
            } else {
                Nanos::MAX
            };
            if now >= give_up.min(patience) {
                if !failed && !stopped {
                    failed = true;
                    self.events.say(&Event::Error(Failure::new(
                        FailureKind::Connection,
                        format!("for {overtime} s at the end of the replay no statement has had an answer"),
                    )));
                }
                break;
            }
            if let Some(failure) = self.trouble() {
                if !failed {
                    self.events.say(&Event::Error(failure));
                }
                failed = true;
                self.control.stop();
                give_up = give_up.min(later(now, PATIENCE));
                continue;
            }
            let wait = clock::until(due, now).min(GLANCE);
            match self.messages.recv_timeout(wait) {
                Ok(Message::Ended(_)) => workers -= 1,
                Ok(Message::Refused(failure)) => self.shared.failed(failure),
                Ok(Message::Stop(within)) => {
                    stopped = within.is_some();
                    self.control.stop();
                    give_up = give_up.min(later(clock::now(), within.unwrap_or(overtime)));
                }
                Ok(Message::Start(_) | Message::Close | Message::Stretch(_) | Message::Slice(_))
                | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        failed |= self.trouble().is_some_and(|failure| {
            if !failed {
                self.events.say(&Event::Error(failure));
            }
            true
        });
        let ended = clock::now();
        let cpu = clock::cpu_seconds() - cpu;
        self.finish(from, until, ended, said, cpu);
        if workers > 0 {
            // What they ask for would run on in the server when we are gone.
            cancel::all();
        }
        loop {
            match self.messages.recv() {
                Ok(Message::Close) | Err(_) => return i32::from(failed),
                Ok(_) => {}
            }
        }
    }

    /// What has gone wrong elsewhere. A connection that was lost is the session's own matter unless the server
    /// takes no other one.
    fn trouble(&self) -> Option<Failure> {
        let lost = self.shared.lost.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(failure) = lost
            && connect::open(self.server).is_err()
        {
            return Some(failure);
        }
        self.shared.failures.lock().unwrap_or_else(|e| e.into_inner()).pop()
    }

    fn finish(&mut self, from: Nanos, until: Nanos, ended: Nanos, said: u64, cpu: f64) {
        self.record.collect(ended.saturating_sub(from) / SECOND + 2);
        let last = self.record.last().max(from);
        let end = if until <= ended { last.max(until) } else { last };
        let seconds = clock::seconds(end - from);
        for second in said..(end - from).div_ceil(SECOND) {
            let rest = seconds - second as f64;
            self.say_second(second, if rest > 0.0 { rest.min(1.0) } else { 1e-3 });
        }
        let mut done = self.record.done(seconds);
        let replayed: Replayed = self.totals.done();
        done.replay = Some(replayed);
        // Those that were never asked are not of interest.
        done.statements_by_name.retain(|statement| statement.count > 0);
        self.events.say(&Event::Done {
            seconds,
            driver_cpu_seconds: cpu,
            driver_peak_rss_bytes: clock::peak_rss_bytes(),
            roles: vec![done],
        });
    }

    fn say_second(&mut self, second: u64, seconds: f64) {
        let mut role = self.record.second(second, 0);
        role.replay = Some(self.totals.second(second));
        self.events.say(&Event::Second { second, seconds, roles: vec![role] });
    }
}
