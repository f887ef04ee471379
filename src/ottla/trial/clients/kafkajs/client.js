// kafkajs for trials: docs/trial-clients.md says what the lines hold.
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')

const KNOWN = ['acks', 'enable.idempotence', 'max.in.flight.requests.per.connection', 'retries', 'request.timeout.ms',
  'retry.backoff.ms']
// As many records as are here go into one call of send: kafkajs has no linger.ms and no batch.size.
const TOGETHER = 10

const say = line => process.stdout.write(JSON.stringify(line) + '\n')
const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))

function open(start) {
  const given = start.settings
  const retry = {
    retries: given.retries ?? Number.MAX_SAFE_INTEGER,
    initialRetryTime: given['retry.backoff.ms'] ?? 100,
    // As in Kafka's own client; its default of 30 s is longer than a trial waits.
    maxRetryTime: 1000,
  }
  const kafka = new Kafka({
    brokers: start['bootstrap.servers'].split(','),
    requestTimeout: given['request.timeout.ms'],
    logLevel: logLevel.NOTHING,
    retry,
  })
  return kafka.producer({
    idempotent: given['enable.idempotence'] ?? false,
    maxInFlightRequests: given['max.in.flight.requests.per.connection'],
    retry,
  })
}

async function send(producer, start, records) {
  const acks = { all: -1, 0: 0, 1: 1 }[start.settings.acks ?? 'all']
  const messages = records.map(each => ({
    partition: each.partition,
    key: bytes(each.key),
    value: bytes(each.value),
    headers: Object.fromEntries(each.headers.map(([name, value]) => [name, bytes(value)])),
  }))
  try {
    const answers = await producer.send({ topic: start.topic, acks, messages })
    const next = Object.fromEntries(answers.map(each => [each.partition, Number(each.baseOffset ?? -1)]))
    for (const { number, partition } of records) {
      const offset = acks === 0 ? null : next[partition]++
      say({ number, outcome: 'acked', partition, offset })
    }
  } catch (error) {
    // An error after a time-out or a retry does not say whether the records are stored.
    for (const { number } of records) say({ number, outcome: 'unknown', error: String(error) })
  }
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const start = JSON.parse((await lines.next()).value)
  const without = Object.keys(start.settings).filter(name => !KNOWN.includes(name))
  const producer = open(start)
  await producer.connect()
  say({ client: 'kafkajs', version, without })
  // Without a limit of the trial's: one at a time with idempotence, as kafkajs wants it, and else five as in Kafka.
  const idempotent = start.settings['enable.idempotence'] ?? false
  const limit = start.settings['max.in.flight.requests.per.connection'] ?? (idempotent ? 1 : 5)
  const sending = new Set()
  let waiting = []
  const leave = async () => {
    while (sending.size >= limit) await Promise.race(sending)
    const one = send(producer, start, waiting).finally(() => sending.delete(one))
    waiting = []
    sending.add(one)
  }
  for await (const line of lines) {
    const given = JSON.parse(line)
    if ('number' in given) waiting.push(given)
    if (waiting.length === TOGETHER || (given.flush && waiting.length > 0)) await leave()
    if (given.flush) await Promise.all(sending)
  }
  if (waiting.length > 0) await leave()
  await Promise.all(sending)
  await producer.disconnect()
}

main().catch(error => {
  console.error(String(error))
  process.exit(1)
})
