//! Everything before the barrier: connections, prepared statements, `start` ops, who works with whom.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::connect::Server;
use crate::engine::{self, ClientConnection, Engine};
use crate::events::Failure;
use crate::pace::{Control, Lockstep};
use crate::program::Role;
use crate::record::RoleRecord;
use crate::session::{Session, SessionContext, Want};
use crate::slices::Slices;
use crate::spec::Spec;
use crate::stretches::Stretches;
use crate::windows::WindowSchedule;
use crate::{cancel, clock, connect};

/// Opens every connection and brings it up to the barrier; sessions grouped by the thread that will
/// serve them. Those in lockstep share a thread where threads serve several. servers: by role.
#[allow(clippy::type_complexity, clippy::too_many_arguments)]
pub fn connect_all<'a>(
    spec: &'a Spec,
    servers: &'a [Server],
    roles: &'a [Role],
    engine: Engine,
    control: &'a Control,
    windows: Option<&'a WindowSchedule>,
    stretches: Option<&'a Stretches<'a>>,
    slices: Option<&'a Slices<'a>>,
    records: &mut [RoleRecord],
) -> Result<(Vec<Vec<ClientConnection<'a>>>, Vec<Vec<i32>>), Failure> {
    let total: usize = roles.iter().map(|r| r.clients as usize).sum();
    allow_files(total + 64);
    let threads = engine.threads(total);
    let most = roles.iter().map(|r| r.clients).max().unwrap_or(1);
    let cells: Vec<Vec<Arc<AtomicI64>>> =
        (0..most).map(|_| spec.shared.iter().map(|_| Arc::default()).collect()).collect();
    let groups = lockstep_groups(spec, roles)?;
    let local_time = spec.local_time.as_ref().map(|text| <[u8; 19]>::try_from(text.as_bytes())).transpose();
    let local_time = local_time.map_err(|_| Failure::spec("local_time is no YYYY-MM-DD HH:MM:SS"))?;

    let mut workers: Vec<Vec<ClientConnection<'a>>> = (0..threads).map(|_| Vec::new()).collect();
    let mut pids: Vec<Vec<i32>> = Vec::new();
    let mut next = 0;
    for role in roles {
        let (record, server) = (&mut records[role.index], &servers[role.index]);
        let recorders: Vec<_> = match engine {
            Engine::Blocking => Vec::new(),
            Engine::IoUring { threads } => (0..threads).map(|_| record.recorder()).collect(),
        };
        let mut of_role = Vec::new();
        for client in 0..role.clients {
            let worker = match engine {
                Engine::Blocking => next,
                Engine::IoUring { threads } => client as usize % threads,
            };
            next += 1;
            let context = SessionContext {
                control,
                recorder: recorders.get(worker).cloned().unwrap_or_else(|| record.recorder()),
                lockstep: partners(&groups, role.index, client),
                keep_rows: spec.results_dir.is_some(),
                windows,
                stretches: stretches.filter(|of| of.role == role.index),
                slices,
                local_time,
            };
            let mut session = Session::new(role, client, spec.seed, context);
            for (slot, cell) in role.shared.iter().zip(&cells[client as usize]) {
                session.share(*slot, Arc::clone(cell));
            }
            let opened = connect::open(server).map_err(|f| of(role, client, f))?;
            of_role.push(opened.pid);
            session.inbox = opened.inbox;
            opened.cancel.into_iter().for_each(cancel::remember);
            let (socket, tls, pid) = (opened.socket, opened.tls, opened.pid);
            let mut connection = ClientConnection { session, socket, tls, server, pid };
            bring_to_barrier(&mut connection).map_err(|f| of(role, client, f))?;
            workers[worker].push(connection);
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
fn bring_to_barrier(connection: &mut ClientConnection<'_>) -> Result<(), Failure> {
    if connection.session.prepare()? {
        engine::blocking::exchange(connection)?;
    }
    loop {
        match connection.session.advance(clock::now()) {
            Want::Exchange => engine::blocking::exchange(connection)?,
            Want::Finished => return Ok(()),
            Want::Wait(then) => std::thread::sleep(clock::until(then, clock::now())),
            Want::Failed => {
                let failure = connection.session.failure.take();
                return Err(failure.unwrap_or_else(|| Failure::spec("a start op failed")));
            }
            Want::Push | Want::Blocked | Want::Connect | Want::Disconnect => {
                return Err(Failure::spec("COPY is not possible before the barrier"));
            }
        }
    }
}

/// The roles that go in step, and a lockstep for each of their clients.
type Groups = Vec<(Vec<usize>, Vec<Arc<Lockstep>>)>;

fn lockstep_groups(spec: &Spec, roles: &[Role]) -> Result<Groups, Failure> {
    let find = |name: &String| {
        roles.iter().position(|r| r.name == *name).ok_or_else(|| {
            Failure::spec(format!("lockstep names the role {name}, which the step does not have"))
        })
    };
    let mut groups: Groups = Vec::new();
    for lockstep in &spec.lockstep {
        let sides = lockstep.roles.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        if sides.iter().any(|side| groups.iter().any(|(others, _)| others.contains(side))) {
            return Err(Failure::spec("lockstep names a role twice"));
        }
        let mut distinct = sides.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let clients = sides.first().map_or(0, |side| roles[*side].clients);
        if distinct.len() < 2
            || distinct.len() < sides.len()
            || sides.iter().any(|side| roles[*side].clients != clients)
        {
            return Err(Failure::spec("lockstep needs different roles with the same number of clients"));
        }
        let each = (0..clients).map(|_| Arc::new(Lockstep::new(sides.len(), lockstep.ahead))).collect();
        groups.push((sides, each));
    }
    Ok(groups)
}

fn partners(groups: &Groups, role: usize, client: u32) -> Option<(Arc<Lockstep>, usize)> {
    groups.iter().find_map(|(sides, each)| {
        let side = sides.iter().position(|r| *r == role)?;
        Some((Arc::clone(&each[client as usize]), side))
    })
}

/// Raises the limit of open files as far as it may go; a shortage shows when a connection fails.
pub fn allow_files(wanted: usize) {
    let wanted = wanted as u64;
    let limit = getrlimit(Resource::Nofile);
    // None is no limit.
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
}
