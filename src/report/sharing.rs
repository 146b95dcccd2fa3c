//! Lines that moved between cores; only where a run wrote some.

use super::html::Page;
use super::records::Records;
use super::table::{Cell, Table};

/// Rows shown: those that moved most.
const MOST: usize = 40;

/// The rows of `sharing.csv` that moved most; none, no table.
#[must_use]
pub fn table(records: &Records) -> Option<Table> {
    if records.sharings.is_empty() {
        return None;
    }
    let mut rows: Vec<_> = records.sharings.iter().collect();
    rows.sort_by(|a, b| b.transfers_per_op.total_cmp(&a.transfers_per_op));
    let shown = rows.len().min(MOST);
    let mut table = Table::new(
        format!(
            "Transfers of a line between cores, per operation: {shown} of the {} rows of sharing.csv, the largest first",
            rows.len()
        ),
        &[
            "machine",
            "variant",
            "point",
            "struct, line",
            "fields",
            "CPUs",
            "kind",
            "transfers per operation",
        ],
    );
    for row in rows.into_iter().take(MOST) {
        table.rows.push(vec![
            Cell::text(row.machine.clone()),
            Cell::text(row.variant.clone()),
            Cell::text(row.point.clone()),
            Cell::text(format!("{}, {}", row.r#struct, row.line)),
            Cell::text(format!("{} and {}", row.field_a, row.field_b)),
            Cell::text(format!("{} and {}", row.cpu_a, row.cpu_b)),
            Cell::text(row.kind.clone()),
            Cell::value(Some(row.transfers_per_op)),
        ]);
    }
    Some(table)
}

/// The section, if there is something to say.
pub fn section(records: &Records, page: &mut Page) {
    let Some(table) = table(records) else {
        return;
    };
    page.section("sharing", "Lines that moved between cores");
    page.table(&table);
}
