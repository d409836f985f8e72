//! What people read: tables, lines, colour and progress; and the same as JSON or YAML for programs.

pub mod bar;
pub mod drift;
pub mod event_line;
pub mod format;
pub mod hours;
pub mod human;
pub mod preview;
pub mod progress;
pub mod receipt;
pub mod spelling;
pub mod style;
pub mod table;
pub mod terminal;
