//! One step from its spec to `done`: connect, prepare, barrier, measure, collect, report.

use std::io::BufRead;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::set_current_timer_slack;

use crate::barrier::connect_all;
use crate::cancel;
use crate::clock::{self, Nanos, SECOND};
use crate::compile;
use crate::connect::Server;
use crate::engine::{self, ClientConnection, Engine};
use crate::events::{Event, Events, Failure, FailureKind, ReadyRole};
use crate::pace::Control;
use crate::program::Role;
use crate::record::RoleRecord;
use crate::replay;
use crate::run_delay::{ConnectionTimes, StatementTimes};
use crate::slices::Slices;
use crate::spec::{Connection, Spec, VERSION};
use crate::statements::StatementWriter;
use crate::stretches::Stretches;
use crate::windows::WindowSchedule;

/// What reaches the thread that collects and reports.
pub enum Message {
    /// Begin at this time, at once if it has passed.
    Start(Nanos),
    /// The step is over; statements under way may still take so many seconds, those of the spec if none is said.
    Stop(Option<f64>),
    Close,
    /// So many operations of a connection are a stretch.
    Stretch(u64),
    /// A slice of so many nanoseconds.
    Slice(Nanos),
    /// A line that is no command.
    Refused(Failure),
    /// A worker has ended; what went wrong there, if anything did.
    Ended(Vec<Failure>),
}

/// How the measured time ended: whether something failed, how many seconds were said, how many workers were
/// still waiting for an answer, and when.
struct Ended {
    failed: bool,
    said: u64,
    active: usize,
    at: Nanos,
}

/// How a step takes turns with those of other drivers: in one way, or in none.
#[derive(Clone, Copy)]
struct InTurns<'a> {
    windows: Option<&'a WindowSchedule>,
    stretches: Option<&'a Stretches<'a>>,
    slices: Option<&'a Slices<'a>>,
}

/// So many seconds after `then`.
pub fn later(then: Nanos, seconds: f64) -> Nanos {
    then.saturating_add(clock::nanos(seconds))
}

/// After a failure, a worker whose server does not answer any more is waited for this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the step that standard input describes; returns the exit code.
pub fn run() -> i32 {
    let events = Events::new();
    let mut line = String::new();
    if let Err(e) = std::io::stdin().lock().read_line(&mut line) {
        events.say(&Event::Error(Failure::spec(format!("cannot read the spec: {e}"))));
        return 2;
    }
    let prepared = parse(&line).and_then(|mut spec| {
        let apart: Vec<_> = spec.roles.iter_mut().map(|role| role.connection.take()).collect();
        let roles = compile_roles(&mut spec)?;
        let (windows, stretches) = (WindowSchedule::of(&spec)?, Stretches::of(&spec, &roles, &events)?);
        let slices = Slices::of(&spec, &roles, &events)?;
        if let Some(frozen) = &spec.frozen {
            let bad = |e| Failure::spec(format!("frozen: {} cannot be mapped: {e}", frozen.clock));
            clock::stands_still_by(&frozen.clock).map_err(bad)?;
        }
        Ok((roles, apart, windows, stretches, slices, spec))
    });
    match prepared {
        Ok((.., spec)) if spec.replay.is_some() => {
            let replay = spec.replay.as_ref().expect("it is there");
            match replay::step(&spec, replay, &events) {
                Ok(code) => code,
                Err(failure) => {
                    events.say(&Event::Error(failure));
                    1
                }
            }
        }
        Ok((roles, apart, windows, stretches, slices, spec)) => {
            let turns =
                InTurns { windows: windows.as_ref(), stretches: stretches.as_ref(), slices: slices.as_ref() };
            match step(&spec, &apart, turns, &roles, &events) {
                Ok(code) => code,
                Err(failure) => {
                    events.say(&Event::Error(failure));
                    1
                }
            }
        }
        Err(failure) => {
            events.say(&Event::Error(failure));
            2
        }
    }
}

fn parse(line: &str) -> Result<Spec, Failure> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let bad = |e: serde_json::Error| Failure::spec(format!("the spec is not valid: {e}"));
    let Versioned { version } = serde_json::from_str(line).map_err(bad)?;
    if version != VERSION {
        return Err(Failure::spec(format!(
            "the spec has version {version}, this driver speaks version {VERSION}: \
             pgstrata and its driver are of different releases; install them together"
        )));
    }
    serde_json::from_str(line).map_err(bad)
}

fn compile_roles(spec: &mut Spec) -> Result<Vec<Role>, Failure> {
    let roles = std::mem::take(&mut spec.roles);
    if spec.replay.is_some() {
        return match roles.is_empty() && spec.windows.is_none() && spec.warmup_seconds == 0.0 {
            true => Ok(Vec::new()),
            false => Err(Failure::spec("a replay has neither roles of its own nor windows nor a warm-up")),
        };
    }
    if roles.is_empty() {
        return Err(Failure::spec("the spec has no roles"));
    }
    if spec.seconds.is_none() && roles.iter().all(|r| r.operations.is_none()) {
        return Err(Failure::spec(
            "the step would never end: it has neither seconds nor a role with operations",
        ));
    }
    if spec.warmup_seconds > 0.0 && roles.iter().any(|r| r.operations.is_some()) {
        return Err(Failure::spec("a step that ends after operations cannot have a warm-up"));
    }
    let roles = roles.into_iter().enumerate();
    roles.map(|(index, role)| compile::role(role, index, &spec.shared)).collect()
}

/// apart: by role, where its connections lead if not where the others do.
fn step(
    spec: &Spec,
    apart: &[Option<Connection>],
    turns: InTurns<'_>,
    roles: &[Role],
    events: &Events,
) -> Result<i32, Failure> {
    let InTurns { windows, stretches, slices } = turns;
    let needs_blocking = roles.iter().any(|r| !r.copies.is_empty() || r.reconnect);
    let most = roles.iter().map(|r| r.clients as usize).max().unwrap_or(1);
    let engine = Engine::choose(spec.engine, spec.threads, most, needs_blocking).map_err(Failure::spec)?;
    let wake_event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)
        .map_err(|e| Failure::new(FailureKind::Io, e.to_string()))?;
    let wake = wake_event.as_raw_fd();
    let ends_by_time = spec.seconds.is_some();
    let finite = roles.iter().filter(|r| !ends_by_time && r.operations.is_some());
    let unfinished = finite.map(|r| u64::from(r.clients)).sum();
    let answers = spec.answer_overtime_seconds.unwrap_or(spec.overtime_seconds);
    let control = Control::new(unfinished, Some(wake_event)).with_answer_overtime(clock::nanos(answers));
    let writer = StatementWriter::new(events, spec.results_dir.as_deref());
    let mut records: Vec<RoleRecord> = roles.iter().map(RoleRecord::of).collect();
    // From now on, not from the barrier on: a server that does not answer must not keep us.
    let (sender, messages) = mpsc::channel();
    listen(sender.clone());
    let leads = apart.iter().map(|own| Server::new(own.as_ref().unwrap_or(&spec.connection)));
    let servers = leads.collect::<Result<Vec<_>, _>>()?;
    let begun = clock::now();
    let (workers, pids) =
        connect_all(spec, &servers, roles, engine, &control, windows, stretches, slices, &mut records)?;
    let connect_seconds = clock::seconds(clock::now() - begun);
    std::thread::scope(|scope| {
        let threads = workers.len();
        for mut clients in workers {
            let (sender, control, writer) = (sender.clone(), &control, &writer);
            let work = move || {
                work(engine, &mut clients, control, spec, wake, writer);
                let failures = clients.iter_mut().filter_map(|c| c.session.failure.take()).collect();
                // Nobody listens only when the process is about to exit.
                let _ = sender.send(Message::Ended(failures));
                clients
            };
            let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, work);
            if let Err(e) = thread {
                // The threads that wait at the barrier would be waited for: end them with the process.
                events
                    .say(&Event::Error(Failure::new(FailureKind::Io, format!("cannot start a thread: {e}"))));
                std::process::exit(1);
            }
        }
        events.say(&Event::Ready {
            version: VERSION,
            driver: env!("CARGO_PKG_VERSION"),
            engine: engine.name(),
            threads,
            connect_seconds,
            roles: ready_roles(roles, &pids),
        });
        let (control, messages) = (&control, &messages);
        let coordinator = Coordinator { spec, turns, roles, events, control, messages };
        let code = coordinator.run(&mut records, threads);
        // Workers that hang in a call to a dead server cannot be joined.
        std::process::exit(code)
    })
}

fn ready_roles(roles: &[Role], pids: &[Vec<i32>]) -> Vec<ReadyRole> {
    let pairs = roles.iter().zip(pids);
    let ready = pairs.map(|(role, pids)| ReadyRole {
        name: role.name.clone(),
        clients: role.clients,
        pids: pids.clone(),
    });
    ready.collect()
}

fn work(
    engine: Engine,
    clients: &mut [ClientConnection<'_>],
    control: &Control,
    spec: &Spec,
    wake: RawFd,
    writer: &StatementWriter<'_>,
) {
    // Without this the kernel may wake a sleeper 50 µs late, and every paced latency has that in it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let begin = control.wait_for_start();
    let measured_from = begin + clock::nanos(spec.warmup_seconds);
    let sharing = clients.len();
    for client in clients.iter_mut() {
        if spec.local && (spec.windows.is_some() || spec.frozen.is_some() || spec.slices) {
            client.session.watch(ConnectionTimes::of(client.pid, sharing));
        }
        let role = client.session.role;
        let records = role.statements.iter().any(|statement| statement.record);
        if spec.local && records && sharing == 1 && !role.reconnect {
            client.session.watch_statements(StatementTimes::of(client.pid));
        }
        client.session.open(begin, measured_from);
    }
    match engine {
        Engine::Blocking => {
            clients.iter_mut().for_each(|client| engine::blocking::run(client, control, writer))
        }
        Engine::IoUring { .. } => engine::uring::run(clients, control, wake, writer),
    }
    for client in clients {
        if client.session.failure.is_some() {
            control.stop();
        }
    }
}

/// Reads commands from standard input on a thread of its own. Its end is the end of the process.
pub fn listen(sender: mpsc::Sender<Message>) {
    #[derive(serde::Deserialize)]
    #[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
    enum Command {
        Start {
            /// Nanoseconds of the monotonic clock.
            #[serde(default)]
            at: Nanos,
        },
        Stop {
            /// Seconds that statements under way may still take.
            #[serde(default)]
            within: Option<f64>,
        },
        Close {},
        Stretch {
            /// Of each connection of the role that `frozen` names.
            operations: NonZeroU64,
        },
        Slice {
            seconds: f64,
        },
    }
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let message = match serde_json::from_str(&line) {
                Ok(Command::Start { at }) => Message::Start(at),
                Ok(Command::Stop { within }) => Message::Stop(within),
                Ok(Command::Close {}) => Message::Close,
                Ok(Command::Stretch { operations }) => Message::Stretch(operations.get()),
                Ok(Command::Slice { seconds }) => Message::Slice(clock::nanos(seconds)),
                Err(e) => Message::Refused(Failure::spec(format!(
                    "a command is not understood ({e}); the commands are start, stretch, slice, stop and close"
                ))),
            };
            // After `close` the process ends by itself, and there is nothing left to be cancelled.
            let last = matches!(message, Message::Close);
            if sender.send(message).is_err() || last {
                return;
            }
        }
        cancel::all();
        std::process::exit(1);
    });
}

struct Coordinator<'a> {
    spec: &'a Spec,
    turns: InTurns<'a>,
    roles: &'a [Role],
    events: &'a Events,
    control: &'a Control,
    messages: &'a Receiver<Message>,
}

impl Coordinator<'_> {
    /// From `start` to `close`; returns the exit code.
    fn run(&self, records: &mut [RoleRecord], workers: usize) -> i32 {
        let at = loop {
            match self.messages.recv() {
                Ok(Message::Start(at)) => break at,
                Ok(Message::Stop(_)) => self.control.stop(),
                Ok(Message::Ended(_)) => {}
                Ok(Message::Stretch(operations)) => self.stretches_are(operations),
                Ok(Message::Slice(_)) => {
                    return self.refuse(Failure::spec("a slice was given before the start"));
                }
                Ok(Message::Refused(failure)) => return self.refuse(failure),
                Ok(Message::Close) | Err(_) => return 0,
            }
        };
        let begin = clock::now().max(at);
        // Records keep to active time, which is the clock's own where there are no windows.
        let warmup =
            self.turns.windows.map_or(clock::nanos(self.spec.warmup_seconds), WindowSchedule::warm_active);
        let from = begin + warmup;
        let until = self.spec.seconds.map_or(Nanos::MAX, |s| from + clock::nanos(s));
        let (measuring, deadline) = match (self.turns.windows, self.turns.slices) {
            (Some(windows), _) => (begin + windows.measured_start(), begin + windows.end()),
            // Who gives them says when it is enough.
            (None, Some(_)) => (Nanos::MAX, Nanos::MAX),
            (None, None) => (from, until),
        };
        records.iter().for_each(|b| b.begin(from));
        self.control.open(begin, deadline);
        let early = self.warm_up(measuring);
        let cpu = clock::cpu_seconds();
        let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.events.say(&Event::Measuring { unix_time: unix_time.as_secs_f64() });

        let ended = self.measure(records, workers, early, begin, from, deadline);
        let cpu = clock::cpu_seconds() - cpu;
        self.finish(records, from, until, ended.at, ended.said, cpu);
        if ended.active > 0 {
            // What they ask for would run on in the server when we are gone.
            cancel::all();
        }
        loop {
            match self.messages.recv() {
                Ok(Message::Close) | Err(_) => return i32::from(ended.failed),
                Ok(Message::Refused(failure)) => return self.refuse(failure),
                Ok(_) => {}
            }
        }
    }

    fn stretches_are(&self, operations: u64) {
        if let Some(stretches) = self.turns.stretches {
            stretches.are(operations);
        }
    }

    fn give(&self, length: Nanos) -> Result<(), Failure> {
        match self.turns.slices {
            Some(slices) => slices.give(clock::now(), length),
            None => Err(Failure::spec("a slice was given to a step without `slices`")),
        }
    }

    /// Says why a command is refused; returns the exit code.
    fn refuse(&self, failure: Failure) -> i32 {
        self.events.say(&Event::Error(failure));
        1
    }

    /// Waits for the measured time, or until it is known that there will be none: a failure, a stop.
    /// Returns what came before.
    fn warm_up(&self, measuring: Nanos) -> Vec<Message> {
        let mut early = Vec::new();
        while clock::now() < measuring {
            match self.messages.recv_timeout(clock::until(measuring, clock::now())) {
                Ok(message) => {
                    let ends = match &message {
                        Message::Stop(_) | Message::Refused(_) => true,
                        // The first one after the warm-up.
                        Message::Slice(_) if self.turns.slices.is_none_or(Slices::is_warm) => true,
                        Message::Slice(length) => match self.give(*length) {
                            Ok(()) => continue,
                            Err(failure) => {
                                early.push(Message::Refused(failure));
                                break;
                            }
                        },
                        Message::Ended(failures) => !failures.is_empty(),
                        Message::Start(_) | Message::Close | Message::Stretch(_) => false,
                    };
                    early.push(message);
                    if ends {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        early
    }

    /// Statements have had their time.
    fn endless(&self, overtime: f64) -> Failure {
        let names: Vec<_> = self.roles.iter().map(|role| role.name.as_str()).collect();
        let of = names.join(", ");
        Failure {
            hint: Some("a statement takes longer than that, or a script does not come to an end".to_owned()),
            ..Failure::new(
                FailureKind::Overtime,
                format!(
                    "{overtime} s after the end of the step there are statements without an answer ({of})"
                ),
            )
        }
    }

    /// Reports every second until all workers have ended, or have had their time for that; early: what came
    /// before the first.
    fn measure(
        &self,
        records: &mut [RoleRecord],
        workers: usize,
        early: Vec<Message>,
        begin: Nanos,
        from: Nanos,
        deadline: Nanos,
    ) -> Ended {
        let (mut failed, mut said, mut active) = (false, 0, workers);
        let overtime = self.spec.overtime_seconds;
        let mut give_up = later(deadline, overtime);
        let mut stopped = false;
        let mut early = early.into_iter();
        while active > 0 {
            let due = match self.turns.windows {
                Some(windows) => windows.when((said + 1) * SECOND).map_or(Nanos::MAX, |then| begin + then),
                None if self.turns.slices.is_some() => Nanos::MAX,
                None => from + (said + 1) * SECOND,
            };
            let now = clock::now();
            // The last client with a number of operations has ended the step; others may wait for an answer.
            if give_up == Nanos::MAX && self.control.over(now) {
                give_up = later(now, overtime);
            }
            if now >= give_up {
                if !failed && !stopped {
                    failed = true;
                    self.events.say(&Event::Error(self.endless(overtime)));
                }
                break;
            }
            let wait = clock::until(due.min(give_up), now);
            match early.next().map_or_else(|| self.messages.recv_timeout(wait), Ok) {
                Ok(Message::Ended(failures)) => {
                    active -= 1;
                    for failure in failures.into_iter().take(usize::from(!failed)) {
                        failed = true;
                        self.events.say(&Event::Error(failure));
                        self.control.stop();
                        give_up = give_up.min(clock::now() + PATIENCE.as_nanos() as Nanos);
                    }
                }
                Ok(Message::Refused(failure)) => {
                    failed = true;
                    self.refuse(failure);
                    self.control.stop();
                    give_up = give_up.min(clock::now() + PATIENCE.as_nanos() as Nanos);
                }
                Ok(Message::Stop(within)) => {
                    stopped = within.is_some();
                    self.control.stop();
                    give_up = give_up.min(later(clock::now(), within.unwrap_or(overtime)));
                }
                Ok(Message::Stretch(operations)) => self.stretches_are(operations),
                Ok(Message::Slice(length)) => {
                    if let Err(failure) = self.give(length) {
                        failed = true;
                        self.refuse(failure);
                        self.control.stop();
                        give_up = give_up.min(clock::now() + PATIENCE.as_nanos() as Nanos);
                    }
                }
                Ok(Message::Start(_) | Message::Close) => {}
                Err(RecvTimeoutError::Timeout) if clock::now() >= due => {
                    said += 1;
                    records.iter_mut().for_each(|b| b.collect(said));
                    // Stretches are told when they have ended.
                    let open = self.turns.windows.map_or(u64::MAX, |t| t.open_at(clock::now() - begin));
                    self.say_second(records, said - 1, 1.0, open);
                }
                Err(_) => {}
            }
        }
        Ended { failed, said, active, at: clock::now() }
    }

    fn finish(
        &self,
        records: &mut [RoleRecord],
        from: Nanos,
        until: Nanos,
        ended: Nanos,
        said: u64,
        cpu: f64,
    ) {
        // Active time is behind the clock, so this is late enough for it, too.
        records.iter_mut().for_each(|b| b.collect(ended.saturating_sub(from) / SECOND + 2));
        let last = records.iter().map(RoleRecord::last).max().unwrap_or(0).max(from);
        // A step of fixed length that ran its time lasted that long even if the last operation of
        // a paced role ended a little before.
        let end = if until <= ended { last.max(until) } else { last };
        // Operations that outlast their windows make the busy time longer than its seconds, and windows
        // that were left out make it shorter.
        let (length, number) = match self.turns.windows.is_some() || self.turns.slices.is_some() {
            true => (self.mean_busy(records), records.iter().map(RoleRecord::unreported).max().unwrap_or(0)),
            false => (end - from, (end - from).div_ceil(SECOND)),
        };
        let seconds = clock::seconds(length);
        for second in said..number {
            let rest = seconds - second as f64;
            self.say_second(records, second, if rest > 0.0 { rest.min(1.0) } else { 1e-3 }, 0);
        }
        let roles = records.iter().zip(self.roles).map(|(record, role)| {
            let own = clock::seconds(record.last().max(from) - from);
            record.done(if role.operations.is_some() { own } else { seconds })
        });
        self.events.say(&Event::Done {
            seconds,
            driver_cpu_seconds: cpu,
            driver_peak_rss_bytes: clock::peak_rss_bytes(),
            roles: roles.collect(),
        });
    }

    /// Active time of one connection, over all roles.
    fn mean_busy(&self, records: &[RoleRecord]) -> Nanos {
        let clients: u64 = self.roles.iter().map(|r| u64::from(r.clients)).sum();
        records.iter().map(RoleRecord::busy).sum::<Nanos>() / clients.max(1)
    }

    fn say_second(&self, records: &mut [RoleRecord], second: u64, seconds: f64, windows: u64) {
        let roles = records.iter_mut().map(|b| b.second(second, windows)).collect();
        self.events.say(&Event::Second { second, seconds, roles });
    }
}
