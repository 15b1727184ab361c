//! One step from its spec to `done`: connect, prepare, barrier, measure, collect, report.

use std::io::BufRead;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::{self, Nanos, SECOND};
use crate::engine::{self, Engine, Line};
use crate::events::{Event, Events, Failure, ReadyRole};
use crate::pace::{Control, Lockstep};
use crate::program::Role;
use crate::record::Board;
use crate::report::Reporter;
use crate::session::{Session, Surroundings, Want};
use crate::spec::{Spec, VERSION};
use crate::{compile, connect};

/// What reaches the thread that collects and reports.
enum News {
    Start,
    Stop,
    Close,
    /// A worker has ended; what went wrong there, if anything did.
    Ended(Vec<Failure>),
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
    let prepared = parse(&line).and_then(|mut spec| Ok((compile_roles(&mut spec)?, spec)));
    match prepared {
        Ok((roles, spec)) => match step(&spec, &roles, &events) {
            Ok(code) => code,
            Err(failure) => {
                events.say(&Event::Error(failure));
                1
            }
        },
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

fn step(spec: &Spec, roles: &[Role], events: &Events) -> Result<i32, Failure> {
    let copies = roles.iter().any(|r| !r.copies.is_empty());
    let most = roles.iter().map(|r| r.clients as usize).max().unwrap_or(1);
    let engine = Engine::choose(spec.engine, spec.threads, most, copies).map_err(Failure::spec)?;
    let wake = eventfd()?;
    let ends_by_time = spec.seconds.is_some();
    let finite = roles.iter().filter(|r| !ends_by_time && r.operations.is_some());
    let unfinished = finite.map(|r| u64::from(r.clients)).sum();
    let control = Control::new(unfinished, Some(wake.as_raw_fd()));
    let reporter = Reporter::new(events, spec.results_dir.as_deref());
    let mut boards: Vec<Board> = roles.iter().map(board).collect();
    let (workers, pids) = connect_all(spec, roles, engine, &control, &mut boards)?;

    let (tell, news) = mpsc::channel();
    listen(tell.clone());
    std::thread::scope(|scope| {
        let threads = workers.len();
        for mut lines in workers {
            let (tell, control, reporter, wake) = (tell.clone(), &control, &reporter, wake.as_raw_fd());
            let work = move || {
                work(engine, &mut lines, control, spec, wake, reporter);
                let failures = lines.iter_mut().filter_map(|l| l.session.failure.take()).collect();
                // Nobody listens only when the process is about to exit.
                let _ = tell.send(News::Ended(failures));
                lines
            };
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn_scoped(scope, work)
                .map_err(|e| Failure::new("io", format!("cannot start a thread: {e}")))?;
        }
        events.say(&Event::Ready {
            version: VERSION,
            driver: env!("CARGO_PKG_VERSION"),
            engine: engine.name(),
            threads,
            roles: ready_roles(roles, &pids),
        });
        let conductor = Conductor { spec, roles, events, control: &control, news: &news };
        let code = conductor.conduct(&mut boards, threads);
        // Workers that hang in a call to a dead server cannot be joined.
        std::process::exit(code)
    })
}

fn board(role: &Role) -> Board {
    let names = role.statements.iter().map(|s| s.name.clone()).collect();
    Board::new(role.name.clone(), names)
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

/// Opens every connection and brings it up to the barrier; sessions grouped by the thread that will
/// serve them. Lockstep partners share a thread where threads serve several.
#[allow(clippy::type_complexity)]
fn connect_all<'a>(
    spec: &Spec,
    roles: &'a [Role],
    engine: Engine,
    control: &'a Control,
    boards: &mut [Board],
) -> Result<(Vec<Vec<Line<'a>>>, Vec<Vec<i32>>), Failure> {
    let total: usize = roles.iter().map(|r| r.clients as usize).sum();
    allow_files(total + 64);
    let threads = match engine {
        Engine::Blocking => total,
        Engine::IoUring { threads } => threads,
    };
    let most = roles.iter().map(|r| r.clients).max().unwrap_or(1);
    let cells: Vec<Vec<Arc<AtomicI64>>> =
        (0..most).map(|_| spec.shared.iter().map(|_| Arc::default()).collect()).collect();
    let pairs = lockstep_pairs(spec, roles)?;

    let mut workers: Vec<Vec<Line<'a>>> = (0..threads).map(|_| Vec::new()).collect();
    let mut pids: Vec<Vec<i32>> = Vec::new();
    let mut next = 0;
    for role in roles {
        let board = &mut boards[role.index];
        let slabs: Vec<_> = match engine {
            Engine::Blocking => Vec::new(),
            Engine::IoUring { threads } => (0..threads).map(|_| board.slab()).collect(),
        };
        let mut of_role = Vec::new();
        for client in 0..role.clients {
            let worker = match engine {
                Engine::Blocking => next,
                Engine::IoUring { threads } => client as usize % threads,
            };
            next += 1;
            let around = Surroundings {
                control,
                slab: slabs.get(worker).cloned().unwrap_or_else(|| board.slab()),
                lockstep: partner(&pairs, role.index, client),
                keep_rows: spec.results_dir.is_some(),
            };
            let mut session = Session::new(role, client, spec.seed, around);
            for (slot, cell) in role.shared.iter().zip(&cells[client as usize]) {
                session.share(*slot, Arc::clone(cell));
            }
            let opened = connect::open(&spec.connection).map_err(|f| of(role, client, f))?;
            of_role.push(opened.pid);
            let mut line = Line { session, socket: opened.socket };
            bring_to_barrier(&mut line).map_err(|f| of(role, client, f))?;
            workers[worker].push(line);
        }
        pids.push(of_role);
    }
    workers.retain(|w| !w.is_empty());
    Ok((workers, pids))
}

fn of(role: &Role, client: u32, failure: Failure) -> Failure {
    Failure { role: Some(role.name.clone()), client: Some(client), ..failure }
}

/// Prepares statements and runs the role's `start` ops.
fn bring_to_barrier(line: &mut Line<'_>) -> Result<(), Failure> {
    let fd = line.socket.as_raw_fd();
    let session = &mut line.session;
    if session.prepare()? {
        engine::blocking::exchange(session, fd)?;
    }
    loop {
        match session.advance(clock::now()) {
            Want::Exchange => engine::blocking::exchange(session, fd)?,
            Want::Finished => return Ok(()),
            Want::Wait(then) => std::thread::sleep(clock::until(then, clock::now())),
            Want::Failed => {
                let failure = session.failure.take();
                return Err(failure.unwrap_or_else(|| Failure::spec("a start op failed")));
            }
            Want::Push | Want::Blocked => {
                return Err(Failure::spec("COPY is not possible before the barrier"));
            }
        }
    }
}

type Pairs = Vec<([usize; 2], Vec<Arc<Lockstep>>)>;

fn lockstep_pairs(spec: &Spec, roles: &[Role]) -> Result<Pairs, Failure> {
    let find = |name: &String| {
        roles.iter().position(|r| r.name == *name).ok_or_else(|| {
            Failure::spec(format!("lockstep names the role {name}, which the step does not have"))
        })
    };
    let mut pairs = Vec::new();
    for lockstep in &spec.lockstep {
        let [a, b] = [find(&lockstep.roles[0])?, find(&lockstep.roles[1])?];
        if a == b || roles[a].clients != roles[b].clients {
            return Err(Failure::spec("lockstep needs two roles with the same number of clients"));
        }
        let each = (0..roles[a].clients).map(|_| Arc::new(Lockstep::new(lockstep.ahead)));
        pairs.push(([a, b], each.collect()));
    }
    Ok(pairs)
}

fn partner(pairs: &Pairs, role: usize, client: u32) -> Option<(Arc<Lockstep>, usize)> {
    pairs.iter().find_map(|(sides, each)| {
        let side = sides.iter().position(|r| *r == role)?;
        Some((Arc::clone(&each[client as usize]), side))
    })
}

fn work(
    engine: Engine,
    lines: &mut [Line<'_>],
    control: &Control,
    spec: &Spec,
    wake: RawFd,
    reporter: &Reporter<'_>,
) {
    // Without this the kernel may wake a sleeper 50 µs late, and every paced latency has that in it.
    // SAFETY: a plain setting of this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    let begin = control.wait_for_start();
    let measured_from = begin + clock::nanos(spec.warmup_seconds);
    for line in lines.iter_mut() {
        line.session.open(begin, measured_from);
    }
    match engine {
        Engine::Blocking => lines.iter_mut().for_each(|line| engine::blocking::run(line, control, reporter)),
        Engine::IoUring { .. } => engine::uring::run(lines, control, wake, reporter),
    }
    for line in lines {
        if line.session.failure.is_some() {
            control.stop();
        }
    }
}

/// Reads commands from standard input on a thread of its own. Its end is the end of the process.
fn listen(tell: mpsc::Sender<News>) {
    #[derive(serde::Deserialize)]
    struct Command {
        command: String,
    }
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let command: Result<Command, _> = serde_json::from_str(&line);
            let news = match command.as_ref().map(|c| c.command.as_str()) {
                Ok("start") => News::Start,
                Ok("stop") => News::Stop,
                Ok("close") => News::Close,
                _ => continue,
            };
            if tell.send(news).is_err() {
                return;
            }
        }
        std::process::exit(1);
    });
}

struct Conductor<'a> {
    spec: &'a Spec,
    roles: &'a [Role],
    events: &'a Events,
    control: &'a Control,
    news: &'a Receiver<News>,
}

impl Conductor<'_> {
    /// From `start` to `close`; returns the exit code.
    fn conduct(&self, boards: &mut [Board], workers: usize) -> i32 {
        loop {
            match self.news.recv() {
                Ok(News::Start) => break,
                Ok(News::Stop) => self.control.stop(),
                Ok(News::Ended(_)) => {}
                Ok(News::Close) | Err(_) => return 0,
            }
        }
        let begin = clock::now();
        let from = begin + clock::nanos(self.spec.warmup_seconds);
        let until = self.spec.seconds.map_or(Nanos::MAX, |s| from + clock::nanos(s));
        boards.iter().for_each(|b| b.begin(from));
        self.control.open(begin, until);
        std::thread::sleep(clock::until(from, clock::now()));
        let cpu = clock::cpu_seconds();
        let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.events.say(&Event::Measuring { unix_time: unix_time.as_secs_f64() });

        let (failed, said, ended) = self.measure(boards, workers, from);
        let cpu = clock::cpu_seconds() - cpu;
        self.finish(boards, from, until, ended, said, cpu);
        loop {
            match self.news.recv() {
                Ok(News::Close) | Err(_) => return i32::from(failed),
                Ok(_) => {}
            }
        }
    }

    /// Reports every second until all workers have ended.
    /// Returns whether something failed, how many seconds were said, and when the last worker ended.
    fn measure(&self, boards: &mut [Board], workers: usize, from: Nanos) -> (bool, u64, Nanos) {
        let (mut failed, mut said, mut active) = (false, 0, workers);
        let mut give_up = Nanos::MAX;
        while active > 0 {
            let due = from + (said + 1) * SECOND;
            let now = clock::now();
            if now >= give_up {
                break;
            }
            match self.news.recv_timeout(clock::until(due.min(give_up), now)) {
                Ok(News::Ended(failures)) => {
                    active -= 1;
                    for failure in failures.into_iter().take(usize::from(!failed)) {
                        failed = true;
                        self.events.say(&Event::Error(failure));
                        self.control.stop();
                        give_up = clock::now() + PATIENCE.as_nanos() as Nanos;
                    }
                }
                Ok(News::Stop) => self.control.stop(),
                Ok(News::Start | News::Close) => {}
                Err(RecvTimeoutError::Timeout) if clock::now() >= due => {
                    said += 1;
                    boards.iter_mut().for_each(|b| b.collect(said));
                    self.say_second(boards, said - 1, 1.0);
                }
                Err(_) => {}
            }
        }
        (failed, said, clock::now())
    }

    fn finish(&self, boards: &mut [Board], from: Nanos, until: Nanos, ended: Nanos, said: u64, cpu: f64) {
        boards.iter_mut().for_each(|b| b.collect(ended.saturating_sub(from) / SECOND + 2));
        let last = boards.iter().map(Board::last).max().unwrap_or(0).max(from);
        // A step of fixed length that ran its time lasted that long even if the last operation of
        // a paced role ended a little before.
        let end = if until <= ended { last.max(until) } else { last };
        let seconds = clock::seconds(end - from);
        for second in said..(end - from).div_ceil(SECOND) {
            self.say_second(boards, second, (seconds - second as f64).min(1.0));
        }
        let roles = boards.iter().zip(self.roles).map(|(board, role)| {
            let own = clock::seconds(board.last().max(from) - from);
            board.done(if role.operations.is_some() { own } else { seconds })
        });
        self.events.say(&Event::Done {
            seconds,
            driver_cpu_seconds: cpu,
            driver_peak_rss_bytes: clock::peak_rss_bytes(),
            roles: roles.collect(),
        });
    }

    fn say_second(&self, boards: &mut [Board], second: u64, seconds: f64) {
        let roles = boards.iter_mut().map(|b| b.second(second)).collect();
        self.events.say(&Event::Second { second, seconds, roles });
    }
}

/// Raises the limit of open files as far as it may go; a shortage shows when a connection fails.
fn allow_files(wanted: usize) {
    // SAFETY: plain data in and out.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < wanted as u64 {
            limit.rlim_cur = limit.rlim_max.min(wanted as u64);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

fn eventfd() -> Result<OwnedFd, Failure> {
    // SAFETY: the call makes a descriptor that nobody else owns.
    unsafe {
        match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) {
            -1 => Err(Failure::new("io", std::io::Error::last_os_error().to_string())),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}
