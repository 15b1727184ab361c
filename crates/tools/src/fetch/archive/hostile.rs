//! Archives made at random, most of them hostile: whatever they hold, nothing outside their folder changes,
//! neither while they are unpacked nor when a program writes through their links afterwards.
//!
//! `PGSTRATA_ARCHIVES=10000 cargo test --release -p pgstrata-tools hostile` tries as many.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use liblzma::write::XzEncoder;
use tar::{Builder, EntryType, Header};

use super::tests::{Place, in_jar};
use super::{Trouble, unpack};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "up", "esc"];
const WRITTEN: &[u8] = b"stolen";
const PRECIOUS: &[u8] = b"precious";

/// SplitMix64: the same archives from the same seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `most`.
    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    /// True `times` times out of 100.
    fn percent(&mut self, times: usize) -> bool {
        self.below(100) < times
    }

    fn path(&mut self, up: usize, outside: &Path) -> String {
        if self.percent(up / 10) {
            return outside.join(NAMES[self.below(NAMES.len())]).to_str().unwrap().to_owned();
        }
        let parts: Vec<&str> = (0..=self.below(5))
            .map(|_| if self.percent(up) { ".." } else { NAMES[self.below(NAMES.len())] })
            .collect();
        parts.join("/")
    }
}

#[derive(Debug)]
struct Member {
    kind: EntryType,
    path: String,
    target: String,
    /// Says path and target in an extension of the header instead of the header.
    pax: bool,
}

fn members(draw: &mut Draw, outside: &Path) -> Vec<Member> {
    // Many have honest paths and hostile links only: those of the others are refused at once.
    let up = if draw.percent(25) { 25 } else { 0 };
    let mut made = Vec::new();
    if draw.percent(30) {
        made.extend(chain(draw));
    }
    for _ in 0..=draw.below(8) {
        let kind = match draw.below(20) {
            0..5 => EntryType::Regular,
            5..8 => EntryType::Directory,
            8..16 => EntryType::Symlink,
            16..19 => EntryType::Link,
            _ => [EntryType::Fifo, EntryType::Char, EntryType::GNUSparse][draw.below(3)],
        };
        let leads_up = if kind.is_symlink() { 40 } else { up };
        made.push(Member {
            kind,
            path: draw.path(up, outside),
            target: draw.path(leads_up, outside),
            pax: draw.percent(20),
        });
    }
    made
}

/// Links, each of which leads a step further through the one before, and a file written through the last.
fn chain(draw: &mut Draw) -> Vec<Member> {
    let length = 1 + draw.below(5);
    let name = |number: usize| format!("link{number}");
    let member = |kind, path: String, target: String| Member { kind, path, target, pax: false };
    let mut made = vec![member(EntryType::Directory, "a/b/c/d".into(), String::new())];
    for number in 0..length {
        let from = if number == 0 { "a/b/c".to_owned() } else { name(number - 1) };
        let ups = vec![".."; draw.below(5)].join("/");
        let behind =
            if draw.percent(50) { format!("/{}", NAMES[draw.below(NAMES.len())]) } else { String::new() };
        made.push(member(EntryType::Symlink, name(number), format!("{from}/{ups}{behind}")));
    }
    let last = name(length - 1);
    match draw.below(4) {
        0 => made.push(member(EntryType::Regular, last, String::new())),
        1 => made.push(member(EntryType::Regular, format!("{last}/a"), String::new())),
        2 => made.push(member(EntryType::Link, "hard".into(), format!("{last}/a"))),
        _ => {}
    }
    if draw.percent(30) {
        made.reverse();
    }
    made
}

fn packed(members: &[Member]) -> Vec<u8> {
    let mut tar = Builder::new(XzEncoder::new(Vec::new(), 0));
    for member in members {
        let is_link = member.kind.is_symlink() || member.kind.is_hard_link();
        let mut said: Vec<(&str, &[u8])> = vec![("path", member.path.as_bytes())];
        if is_link {
            said.push(("linkpath", member.target.as_bytes()));
        }
        if member.pax {
            tar.append_pax_extensions(said).unwrap();
        }
        let mut header = Header::new_gnu();
        let field = |field: &mut [u8], text: &str| {
            let count = text.len().min(field.len());
            field[..count].copy_from_slice(&text.as_bytes()[..count]);
        };
        field(&mut header.as_old_mut().name, if member.pax { "a" } else { &member.path });
        if is_link {
            field(&mut header.as_old_mut().linkname, if member.pax { "b" } else { &member.target });
        }
        header.set_entry_type(member.kind);
        header.set_mode(0o755);
        let content = if member.kind.is_file() { WRITTEN } else { b"" };
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }
    in_jar(&tar.into_inner().unwrap().finish().unwrap())
}

/// Files and folders of all names, so that whatever leads out of the folder leads to something.
fn surround(folder: &Path, depth: usize) {
    for name in ["c", "d", "esc"] {
        fs::write(folder.join(name), PRECIOUS).unwrap();
    }
    for name in ["a", "b", "up"] {
        fs::create_dir_all(folder.join(name)).unwrap();
        if depth > 0 {
            surround(&folder.join(name), depth - 1);
        }
    }
}

/// Everything below a folder but `left_out`: kind, links, mode and content.
fn state(folder: &Path, left_out: &Path, all: &mut BTreeMap<PathBuf, (u32, u64, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path == left_out {
            continue;
        }
        let about = fs::symlink_metadata(&path).unwrap();
        let (mut links, mut text) = (0, Vec::new());
        if about.is_dir() {
            state(&path, left_out, all);
        } else {
            links = about.nlink();
            text = fs::read(&path).unwrap();
        }
        all.insert(path, (about.mode(), links, text));
    }
}

/// Writes through every link below a folder, as a program would that follows it. Returns their number.
fn write_through(folder: &Path) -> usize {
    let mut links = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            links += write_through(&path);
        } else if about.is_symlink() {
            links += 1;
            for place in [path.clone(), path.join("new"), path.join("a"), path.join("c")] {
                if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(place) {
                    file.write_all(WRITTEN).unwrap();
                }
            }
        }
    }
    links
}

#[test]
fn nothing_outside_changes_whatever_an_archive_holds() {
    let number = |name: &str, default: u64| env::var(name).map_or(default, |text| text.parse().unwrap());
    let (count, first) = (number("PGSTRATA_ARCHIVES", 300), number("PGSTRATA_ARCHIVES_SEED", 1));
    let place = Place::new();
    let (folder, root) = (place.0.join("x/y"), place.0.join("x/y/root"));
    fs::create_dir_all(&folder).unwrap();
    for around in [&place.0, folder.parent().unwrap(), &folder] {
        surround(around, 1);
    }
    let mut before = BTreeMap::new();
    state(&place.0, &root, &mut before);
    let (mut unpacked, mut links) = (0, 0);
    for seed in first..first + count {
        let members = members(&mut Draw(seed), &folder);
        match unpack(&packed(&members), &root) {
            Ok(()) => {
                unpacked += 1;
                links += write_through(&root);
            }
            Err(Trouble::Archive(_)) => {}
            Err(Trouble::Cache(error)) => panic!("seed {seed}: {error}: {members:?}"),
        }
        if root.exists() {
            fs::remove_dir_all(&root).unwrap();
        }
        let mut after = BTreeMap::new();
        state(&place.0, &root, &mut after);
        assert!(before == after, "seed {seed}: {members:?}");
    }
    println!("{count} archives, {unpacked} unpacked, written through {links} links: nothing outside changed");
    assert!(unpacked * 20 > count && links > usize::try_from(count / 20).unwrap(), "hardly one is unpacked");
}
