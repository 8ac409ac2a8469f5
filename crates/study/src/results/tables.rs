//! Parquet files: writing the tables, and merging those of several runs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RecordWriter;
use parquet::schema::types::ColumnPath;

use super::rows::{CallsRow, EventsRow, LoadsRow, ReadsRow, Rows, SleepsRow, WarpsRow};

/// The files, and the columns of each.
pub const FILES: [(&str, &[(&str, &str)]); 6] = [
    ("calls.parquet", CallsRow::COLUMNS),
    ("reads.parquet", ReadsRow::COLUMNS),
    ("sleeps.parquet", SleepsRow::COLUMNS),
    ("events.parquet", EventsRow::COLUMNS),
    ("warps.parquet", WarpsRow::COLUMNS),
    ("loads.parquet", LoadsRow::COLUMNS),
];

/// The number of rows written at once: the unit of readers, which is in memory meanwhile.
const ROW_GROUP: usize = 100_000;

/// Appended to the name of a file until it is complete.
const UNFINISHED: &str = "unfinished";

/// Writes the tables of a folder. Existing files stay until all new ones are complete.
pub struct Tables {
    folder: PathBuf,
    waiting: Rows,
    writers: Writers,
}

struct Writers {
    calls: Table<CallsRow>,
    reads: Table<ReadsRow>,
    sleeps: Table<SleepsRow>,
    events: Table<EventsRow>,
    warps: Table<WarpsRow>,
    loads: Table<LoadsRow>,
}

impl Tables {
    /// Starts writing them.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let writers = Writers {
            calls: Table::begin(folder, "calls.parquet")?,
            reads: Table::begin(folder, "reads.parquet")?,
            sleeps: Table::begin(folder, "sleeps.parquet")?,
            events: Table::begin(folder, "events.parquet")?,
            warps: Table::begin(folder, "warps.parquet")?,
            loads: Table::begin(folder, "loads.parquet")?,
        };
        Ok(Self { folder: folder.to_owned(), waiting: Rows::default(), writers })
    }

    /// The rows to add to; [`flush`](Self::flush) writes them once there are enough.
    pub fn rows(&mut self) -> &mut Rows {
        &mut self.waiting
    }

    /// Writes the rows of tables that have many.
    ///
    /// # Errors
    /// If that fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write(ROW_GROUP)
    }

    fn write(&mut self, at_least: usize) -> io::Result<()> {
        let (rows, writers) = (&mut self.waiting, &mut self.writers);
        writers.calls.write(&mut rows.calls, at_least)?;
        writers.reads.write(&mut rows.reads, at_least)?;
        writers.sleeps.write(&mut rows.sleeps, at_least)?;
        writers.events.write(&mut rows.events, at_least)?;
        writers.warps.write(&mut rows.warps, at_least)?;
        writers.loads.write(&mut rows.loads, at_least)
    }

    /// Writes the rest, and renames the files.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.write(1)?;
        self.writers.calls.finish()?;
        self.writers.reads.finish()?;
        self.writers.sleeps.finish()?;
        self.writers.events.finish()?;
        self.writers.warps.finish()?;
        self.writers.loads.finish()?;
        name(&self.folder)
    }
}

/// Gives the files of a folder their final names.
fn name(folder: &Path) -> io::Result<()> {
    for (file, _) in FILES {
        std::fs::rename(unfinished(folder, file), folder.join(file))?;
    }
    File::open(folder)?.sync_all()
}

fn unfinished(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!("{file}.{UNFINISHED}"))
}

/// Columns with values close to the previous ones, but seldom equal: they use delta encoding, which
/// makes a table of events three times smaller than a dictionary does.
const BY_DIFFERENCES: [&str; 6] = ["at_ns", "after_ns", "miss_ns", "event", "sleep", "record"];

fn properties() -> WriterPropertiesPtr {
    let builder = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let by_differences = |builder: WriterPropertiesBuilder, column: &str| {
        let column = ColumnPath::from(column);
        builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
    };
    Arc::new(BY_DIFFERENCES.into_iter().fold(builder, by_differences).build())
}

struct Table<Row> {
    writer: SerializedFileWriter<File>,
    of: std::marker::PhantomData<Row>,
}

impl<Row> Table<Row>
where
    for<'a> &'a [Row]: RecordWriter<Row>,
{
    fn begin(folder: &Path, file: &str) -> io::Result<Self> {
        let schema = <&[Row]>::default().schema()?;
        let to = File::create(unfinished(folder, file))?;
        let writer = SerializedFileWriter::new(to, schema, properties())?;
        Ok(Self { writer, of: std::marker::PhantomData })
    }

    fn write(&mut self, rows: &mut Vec<Row>, at_least: usize) -> io::Result<()> {
        if rows.len() >= at_least.max(1) {
            for rows in rows.chunks(ROW_GROUP) {
                let mut group = self.writer.next_row_group()?;
                rows.write_to_row_group(&mut group)?;
                group.close()?;
            }
            rows.clear();
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.writer.into_inner()?.sync_all()
    }
}

/// Merges the tables of several folders into one, in this order. Nothing is compressed again.
///
/// # Errors
/// If a table cannot be read or written, or its columns differ from those of another folder. Then
/// nothing is left in `out`.
pub fn merge(folders: &[PathBuf], out: &Path) -> io::Result<()> {
    let opened = FILES.map(|(file, _)| (file, inputs(folders, file)));
    let written = opened
        .into_iter()
        .try_for_each(|(file, inputs)| merge_one(&inputs?, &unfinished(out, file)));
    written.and_then(|()| name(out)).inspect_err(|_| {
        for (file, _) in FILES {
            // Most of them were not started.
            let _ = std::fs::remove_file(unfinished(out, file));
        }
    })
}

/// An opened file of a folder, with its metadata.
type Input = (PathBuf, File, ParquetMetaData);

fn inputs(folders: &[PathBuf], file: &str) -> io::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for folder in folders {
        let path = folder.join(file);
        let named = |cause: ParquetError| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {cause}", path.display()))
        };
        let from = File::open(&path).map_err(|cause| {
            io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))
        })?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&from).map_err(named)?;
        inputs.push((path, from, metadata));
    }
    Ok(inputs)
}

fn merge_one(inputs: &[Input], out: &Path) -> io::Result<()> {
    let Some((first, _, metadata)) = inputs.first() else { return Ok(()) };
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    for (path, _, metadata) in inputs {
        if metadata.file_metadata().schema() != &*schema {
            let why = format!(
                "{} and {} have different columns: they are of different versions",
                first.display(),
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    }
    let mut writer = SerializedFileWriter::new(File::create(out)?, schema, properties())?;
    for (_, from, metadata) in inputs {
        append(&mut writer, from, metadata)?;
    }
    writer.into_inner()?.sync_all()
}

fn append(
    writer: &mut SerializedFileWriter<File>,
    from: &File,
    metadata: &ParquetMetaData,
) -> Result<()> {
    for group in metadata.row_groups() {
        let mut to = writer.next_row_group()?;
        for column in group.columns() {
            to.append_column(from, copied(group, column.clone()))?;
        }
        to.close()?;
    }
    Ok(())
}

/// The metadata of a column that the writer copies. The page indexes are omitted: readers do
/// without.
fn copied(
    group: &RowGroupMetaData,
    column: parquet::file::metadata::ColumnChunkMetaData,
) -> ColumnCloseResult {
    ColumnCloseResult {
        bytes_written: column.compressed_size().cast_unsigned(),
        rows_written: group.num_rows().cast_unsigned(),
        metadata: column,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    }
}
