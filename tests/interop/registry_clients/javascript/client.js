// What kafkajs' client of a schema registry is told by one, as a line of JSON.
//
// Arguments: the registry's address, a subject with one version, a value of it in hex.
const { SchemaRegistry, SchemaType } = require('@kafkajs/confluent-schema-registry')

const LATER =
  '{"type":"record","name":"Order","fields":[{"name":"item","type":"string"},{"name":"count","type":"int","default":0}]}'
const OTHER = '{"type":"record","name":"Order","fields":[{"name":"item","type":"int"}]}'

async function main([url, subject, value]) {
  const registry = new SchemaRegistry({ host: url, retry: { retries: 0 } })
  const codeOf = async asked => {
    try {
      await asked
      return 0
    } catch (error) {
      return error.status
    }
  }
  const told = {}
  told.first = await registry.getLatestSchemaId(subject)
  told.item = (await registry.decode(Buffer.from(value, 'hex'))).item
  told.refused = await codeOf(registry.register({ type: SchemaType.AVRO, schema: OTHER }, { subject }))
  const second = await registry.register({ type: SchemaType.AVRO, schema: LATER }, { subject })
  told.again = await registry.getRegistryIdBySchema(subject, { type: SchemaType.AVRO, schema: LATER })
  told.value = (await registry.encode(second.id, { item: 'milk!', count: 2 })).toString('hex')
  told.second = second.id

  const order = { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] }
  const json = await registry.register(
    { type: SchemaType.JSON, schema: JSON.stringify(order) },
    { subject: `${subject}-json` },
  )
  told.json = (await registry.encode(json.id, { item: 'tea' })).toString('hex')
  const proto = 'syntax = "proto3"; message Order { string item = 1; }'
  const protobuf = await registry.register(
    { type: SchemaType.PROTOBUF, schema: proto },
    { subject: `${subject}-protobuf` },
  )
  // This client writes no message indexes, so that nobody else reads its Protobuf.
  told.protobuf = (await registry.decode(await registry.encode(protobuf.id, { item: 'tea' }))).item
  told.lacking = await codeOf(registry.getSchema(999999))
  console.log(JSON.stringify(told))
}

main(process.argv.slice(2)).catch(error => {
  console.error(error)
  process.exit(1)
})
