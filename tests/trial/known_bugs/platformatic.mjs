// @platformatic/kafka for trials: docs/trial-clients.md says what the lines hold. Each record is a call of send, and
// none waits for another. The library is looked for from the folder in which this is started.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(process.cwd() + '/'))
const { Producer } = await import(pathToFileURL(require.resolve('@platformatic/kafka')))
const KNOWN = ['acks', 'enable.idempotence', 'request.timeout.ms', 'retry.backoff.ms']

const say = line => process.stdout.write(JSON.stringify(line) + '\n')
const bytes = text => (text === null ? undefined : Buffer.from(text, 'base64'))

function version () {
  const place = require.resolve('@platformatic/kafka')
  return require(place.slice(0, place.indexOf('@platformatic/kafka')) + '@platformatic/kafka/package.json').version
}

async function send (producer, topic, record) {
  const { number, partition } = record
  const headers = new Map(record.headers.map(([name, value]) => [Buffer.from(name), bytes(value)]))
  try {
    const message = { topic, partition, key: bytes(record.key), value: bytes(record.value), headers }
    const told = await producer.send({ messages: [message] })
    const offset = told.offsets?.[0]
    say({ number, outcome: 'acked', partition, offset: offset ? Number(offset.offset) : null })
  } catch (error) {
    say({ number, outcome: 'unknown', error: String(error) })
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const start = JSON.parse((await lines.next()).value)
const given = start.settings
const producer = new Producer({
  clientId: 'trial',
  bootstrapBrokers: start['bootstrap.servers'].split(','),
  acks: { all: -1, 0: 0, 1: 1 }[given.acks ?? 'all'],
  idempotent: given['enable.idempotence'] ?? false,
  timeout: given['request.timeout.ms'],
  retryDelay: given['retry.backoff.ms'],
  retries: 20
})
say({ client: '@platformatic/kafka', version: version(), without: Object.keys(given).filter(name => !KNOWN.includes(name)) })
const sending = new Set()
for await (const line of lines) {
  const record = JSON.parse(line)
  if (record.flush) {
    await Promise.all(sending)
  } else {
    const one = send(producer, start.topic, record).finally(() => sending.delete(one))
    sending.add(one)
  }
}
await Promise.all(sending)
await producer.close()
