// rskafka for trials: docs/trial-clients.md says what the lines hold.

use base64::{Engine, prelude::BASE64_STANDARD};
use rskafka::BackoffConfig;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

// As many records as are here go into one call of produce, and one call follows the other.
const TOGETHER: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut lines = stdin().lock().lines();
    let start: Value = serde_json::from_str(&lines.next().ok_or("there is no first line")??)?;
    let (backoff, without) = options(&start["settings"]);
    let servers = text(&start["bootstrap.servers"]).split(',').map(String::from).collect();
    let client = ClientBuilder::new(servers).backoff_config(backoff).build().await?;
    say(json!({"client": "rskafka", "version": "0.6.0", "without": without}));
    let mut partitions: HashMap<i64, PartitionClient> = HashMap::new();
    let mut waiting: Vec<Value> = Vec::new();
    for line in lines {
        let given: Value = serde_json::from_str(&line?)?;
        let is_record = given.get("number").is_some();
        if is_record {
            waiting.push(given);
        }
        if !is_record || waiting.len() == TOGETHER {
            send(&client, &mut partitions, text(&start["topic"]), std::mem::take(&mut waiting)).await?;
        }
    }
    send(&client, &mut partitions, text(&start["topic"]), waiting).await
}

/// rskafka's only options, and the settings that it does not have.
fn options(settings: &Value) -> (BackoffConfig, Vec<&String>) {
    let mut backoff = BackoffConfig::default();
    let mut without = Vec::new();
    for (name, value) in settings.as_object().into_iter().flatten() {
        let span = Duration::from_millis(value.as_u64().unwrap_or(0));
        match name.as_str() {
            "retry.backoff.ms" => backoff.init_backoff = span,
            "delivery.timeout.ms" => backoff.deadline = Some(span),
            // What it does anyway.
            "acks" if value == "all" || value == -1 => {}
            "enable.idempotence" if value == false => {}
            "max.in.flight.requests.per.connection" if value == 1 => {}
            _ => without.push(name),
        }
    }
    (backoff, without)
}

async fn send(
    client: &Client,
    partitions: &mut HashMap<i64, PartitionClient>,
    topic: &str,
    given: Vec<Value>,
) -> Result<(), Box<dyn Error>> {
    let mut groups: HashMap<i64, Vec<Value>> = HashMap::new();
    for one in given {
        groups.entry(one["partition"].as_i64().unwrap_or(0)).or_default().push(one);
    }
    for (partition, group) in groups {
        if !partitions.contains_key(&partition) {
            let made = client.partition_client(topic, partition as i32, UnknownTopicHandling::Retry).await?;
            partitions.insert(partition, made);
        }
        let records = group.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        match partitions[&partition].produce(records, Compression::NoCompression).await {
            Ok(offsets) => {
                for (one, offset) in group.iter().zip(offsets) {
                    say(json!({"number": one["number"], "outcome": "acked", "partition": partition, "offset": offset}));
                }
            }
            // An error after a time-out or a retry does not say whether the records are stored.
            Err(error) => {
                for one in &group {
                    say(json!({"number": one["number"], "outcome": "unknown", "error": error.to_string()}));
                }
            }
        }
    }
    Ok(())
}

fn record(given: &Value) -> Result<Record, Box<dyn Error>> {
    let mut headers = std::collections::BTreeMap::new();
    for header in given["headers"].as_array().into_iter().flatten() {
        headers.insert(text(&header[0]).to_string(), bytes(&header[1])?.unwrap_or_default());
    }
    let (key, value) = (bytes(&given["key"])?, bytes(&given["value"])?);
    Ok(Record { key, value, headers, timestamp: chrono::Utc::now() })
}

fn text(given: &Value) -> &str {
    given.as_str().unwrap_or_default()
}

fn bytes(given: &Value) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    Ok(given.as_str().map(|text| BASE64_STANDARD.decode(text)).transpose()?)
}

fn say(line: Value) {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("whoever started this reads what it says");
}
