//! arrow-avro's part of `make bench ARGS=avro`: payloads to a record batch and back, timed by the thread's CPU clock.
//!
//! The file that is named holds the schema, then framed payloads, each behind its length (four bytes, little-endian).

use arrow_array::RecordBatch;
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{
    AvroSchema, Fingerprint, FingerprintAlgorithm, FingerprintStrategy, SchemaStore,
    SCHEMA_METADATA_KEY,
};
use arrow_avro::writer::format::AvroSoeFormat;
use arrow_avro::writer::WriterBuilder;
use std::error::Error;

fn cpu_s() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn decode(
    payloads: &[&[u8]],
    schema: &AvroSchema,
    rows: usize,
) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(1), schema.clone())?;
    let mut decoder = ReaderBuilder::new()
        .with_writer_schema_store(store)
        .with_batch_size(rows)
        .build_decoder()?;
    let mut batches = Vec::new();
    for payload in payloads {
        decoder.decode(payload)?;
        if decoder.batch_is_full() {
            batches.extend(decoder.flush()?);
        }
    }
    batches.extend(decoder.flush()?);
    Ok(batches)
}

fn encode(batches: &[RecordBatch], schema: &AvroSchema) -> Result<usize, Box<dyn Error>> {
    let mut arrow = batches[0].schema().as_ref().clone();
    arrow
        .metadata
        .insert(SCHEMA_METADATA_KEY.to_string(), schema.json_string.clone());
    let mut encoder = WriterBuilder::new(arrow)
        .with_fingerprint_strategy(FingerprintStrategy::Id(1))
        .build_encoder::<AvroSoeFormat>()?;
    let mut bytes = 0;
    for batch in batches {
        encoder.encode(batch)?;
        bytes += encoder.flush().bytes().len();
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let content = std::fs::read(&arguments[1])?;
    let (rows, rounds): (usize, usize) = (arguments[2].parse()?, arguments[3].parse()?);
    let mut at = 0;
    let mut pieces: Vec<&[u8]> = Vec::new();
    while at < content.len() {
        let size = u32::from_le_bytes(content[at..at + 4].try_into()?) as usize;
        pieces.push(&content[at + 4..at + 4 + size]);
        at += 4 + size;
    }
    let schema = AvroSchema::new(String::from_utf8(pieces[0].to_vec())?);
    let (mut decode_s, mut encode_s) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..rounds {
        let before = cpu_s();
        let batches = decode(&pieces[1..], &schema, rows)?;
        decode_s.push(cpu_s() - before);
        assert_eq!(
            batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
            pieces.len() - 1
        );
        let before = cpu_s();
        bytes = encode(&batches, &schema)?;
        encode_s.push(cpu_s() - before);
    }
    println!("{{\"decode_s\": {decode_s:?}, \"encode_s\": {encode_s:?}, \"bytes\": {bytes}}}");
    Ok(())
}
