//! Names of variables, and the values one connection has for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::error::Fault;
use super::number::{Number, Outcome};
use super::value::{Value, ValueRef, read_text};

/// Gives each name of a variable a slot: a small number, dense from 0.
#[derive(Clone, Debug, Default)]
pub struct Names {
    slots: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    pub fn new() -> Names {
        Names::default()
    }

    /// The slot of a name, a new one if the name is new.
    pub fn slot(&mut self, name: &str) -> u32 {
        if let Some(&slot) = self.slots.get(name) {
            return slot;
        }
        let slot = self.names.len() as u32;
        self.slots.insert(name.into(), slot);
        self.names.push(name.into());
        slot
    }

    /// The slot of a name that some script or option has used.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.slots.get(name).copied()
    }

    /// The name of a slot. Panics if this is not a slot of these names.
    pub fn name(&self, slot: u32) -> &str {
        &self.names[slot as usize]
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether a variable may be called so: letters, digits and underscores, other than ASCII
    /// allowed, and no digit first.
    pub fn is_valid(name: &str) -> bool {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|byte| is_name_byte(byte) && !byte.is_ascii_digit())
            && bytes.all(is_name_byte)
    }
}

/// A byte that can be part of the name of a variable.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The values of one connection, by slot. A slot is unset until it is set.
#[derive(Clone, Debug, Default)]
pub struct Vars {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
enum Slot {
    #[default]
    Unset,
    Own(Value),
    /// An integer that several connections share.
    Shared(Arc<AtomicI64>),
}

impl Vars {
    /// All slots of `names` unset.
    pub fn new(names: &Names) -> Vars {
        Vars { slots: vec![Slot::Unset; names.len()] }
    }

    /// Makes the slot an integer shared through `cell`. Whatever it held is forgotten.
    pub fn share(&mut self, slot: u32, cell: Arc<AtomicI64>) {
        *self.at(slot) = Slot::Shared(cell);
    }

    /// The value of a slot, None if it is unset.
    pub fn read(&self, slot: u32) -> Option<ValueRef<'_>> {
        match self.slots.get(slot as usize) {
            Some(Slot::Own(value)) => Some(value.as_ref()),
            Some(Slot::Shared(cell)) => Some(ValueRef::Int(cell.load(Ordering::Acquire))),
            Some(Slot::Unset) | None => None,
        }
    }

    /// Sets a slot. A shared slot holds integers only: doubles are rounded, TRUE is 1, and what is
    /// no number is 0.
    #[inline]
    pub fn set(&mut self, slot: u32, value: Value) {
        if let (Some(Slot::Own(Value::Int(old))), Value::Int(new)) =
            (self.slots.get_mut(slot as usize), &value)
        {
            *old = *new;
            return;
        }
        self.set_other(slot, value);
    }

    #[inline(never)]
    fn set_other(&mut self, slot: u32, value: Value) {
        match self.at(slot) {
            Slot::Shared(cell) => cell.store(as_shared(&value), Ordering::Release),
            own => *own = Slot::Own(value),
        }
    }

    fn at(&mut self, slot: u32) -> &mut Slot {
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, Slot::Unset);
        }
        &mut self.slots[slot]
    }

    /// The value of a slot as an expression sees it.
    #[inline(always)]
    pub(super) fn number(&self, slot: u32) -> Outcome<Number> {
        match self.slots.get(slot as usize) {
            Some(Slot::Own(Value::Int(value))) => Ok(Number::Int(*value)),
            _ => self.other_number(slot),
        }
    }

    #[inline(never)]
    fn other_number(&self, slot: u32) -> Outcome<Number> {
        match self.slots.get(slot as usize) {
            Some(Slot::Own(Value::Int(value))) => Ok(Number::Int(*value)),
            Some(Slot::Own(Value::Double(value))) => Ok(Number::Double(*value)),
            Some(Slot::Own(Value::Bool(value))) => Ok(Number::Bool(*value)),
            Some(Slot::Own(Value::Null)) => Ok(Number::Null),
            Some(Slot::Own(Value::Text(text))) => {
                read_text(text).map_err(|fault| Box::new(Fault::Text(slot, fault)))
            }
            Some(Slot::Shared(cell)) => Ok(Number::Int(cell.load(Ordering::Acquire))),
            Some(Slot::Unset) | None => Err(Box::new(Fault::Undefined(slot))),
        }
    }
}

fn as_shared(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        Value::Double(value) => value.round_ties_even() as i64,
        Value::Bool(value) => i64::from(*value),
        Value::Null => 0,
        Value::Text(text) => match read_text(text) {
            Ok(Number::Int(value)) => value,
            Ok(Number::Double(value)) => value.round_ties_even() as i64,
            Ok(Number::Bool(value)) => i64::from(value),
            Ok(Number::Null) | Err(_) => 0,
        },
    }
}
