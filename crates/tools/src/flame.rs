//! Flame graphs: what `perf script` prints, folded, and folded stacks drawn. Both by `inferno`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options as FoldOptions};
use inferno::{differential, flamegraph};

#[derive(Args, Debug)]
pub struct FlameArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Fold what `perf script` printed: one line per stack with its samples, on standard output
    Fold {
        /// Output of `perf script`; several are added up
        #[arg(required = true)]
        perf: Vec<PathBuf>,
    },
    /// Draw folded stacks as an SVG, on standard output
    Draw {
        folded: PathBuf,
        /// Folded stacks to compare with: colours show what grew (red) and what shrank (blue)
        #[arg(long)]
        base: Option<PathBuf>,
        #[arg(long, default_value = "CPU")]
        title: String,
        #[arg(long, default_value = "")]
        subtitle: String,
    },
}

/// Folds or draws; returns the exit code.
pub fn run(args: &FlameArgs) -> i32 {
    let out = BufWriter::new(io::stdout().lock());
    let result = match &args.command {
        Command::Fold { perf } => fold(perf, out),
        Command::Draw { folded, base, title, subtitle } => {
            draw(folded, base.as_deref(), title, subtitle, out)
        }
    };
    match result {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("pgstrata-tools flame: {message}");
            1
        }
    }
}

fn fold(perf: &[PathBuf], mut out: impl Write) -> Result<(), String> {
    let mut folder = Folder::from(FoldOptions::default());
    let mut folded = Vec::new();
    for path in perf {
        folder
            .collapse(reader(path)?, &mut folded)
            .map_err(|e| format!("cannot fold {}: {e}", path.display()))?;
    }
    out.write_all(&folded).and_then(|()| out.flush()).map_err(|e| e.to_string())
}

fn draw(
    folded: &Path,
    base: Option<&Path>,
    title: &str,
    subtitle: &str,
    out: impl Write,
) -> Result<(), String> {
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.subtitle = (!subtitle.is_empty()).then(|| subtitle.to_owned());
    options.count_name = "samples".to_owned();
    // The page these stand in works without a network, and so must they.
    options.font_type = "monospace".to_owned();
    let drawn = match base {
        None => flamegraph::from_reader(&mut options, reader(folded)?, out),
        Some(base) => {
            let mut both = Vec::new();
            let normalise = differential::Options { normalize: true, ..Default::default() };
            differential::from_readers(normalise, reader(base)?, reader(folded)?, &mut both)
                .map_err(|e| format!("cannot compare with {}: {e}", base.display()))?;
            flamegraph::from_reader(&mut options, Cursor::new(both), out)
        }
    };
    drawn.map_err(|e| format!("cannot draw {}: {e}", folded.display()))
}

fn reader(path: &Path) -> Result<BufReader<File>, String> {
    File::open(path).map(BufReader::new).map_err(|e| format!("cannot read {}: {e}", path.display()))
}
