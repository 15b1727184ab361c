//! `schema`: the two dialects as JSON Schemas, made from the types that read and write them.

use clap::ValueEnum;
use schemars::generate::SchemaSettings;

use crate::events::Event;
use crate::spec::Spec;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Dialect {
    /// What the driver is told
    Spec,
    /// What the driver says
    Events,
}

/// The schema of a dialect, as it lies in `docs/`.
pub fn text(dialect: Dialect) -> String {
    let settings = SchemaSettings::draft2020_12();
    let schema = match dialect {
        Dialect::Spec => settings.for_deserialize().into_generator().into_root_schema_for::<Spec>(),
        Dialect::Events => settings.for_serialize().into_generator().into_root_schema_for::<Event>(),
    };
    serde_json::to_string_pretty(&schema).expect("a schema is plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_in_docs_are_those_of_the_types() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        for (dialect, name) in [(Dialect::Spec, "spec"), (Dialect::Events, "events")] {
            let there = std::fs::read_to_string(format!("{docs}/driver-{name}.schema.json")).unwrap();
            assert!(there == text(dialect), "docs/driver-{name}.schema.json is old: run `make schemas`");
        }
    }
}
