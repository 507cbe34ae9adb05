// kafkajs: the contract's verbs (see ../README.md). It produces; it reads only with groups.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

class Unsupported extends Error {}

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
const LACKS = {
  'null-header': 'the encoder throws on a header without a value',
  'many-headers': 'headers are an object: those of one name lose their place among the others',
}

const put = fields => process.stdout.write(JSON.stringify(fields) + '\n')
const decoded = text => (text === null ? null : Buffer.from(text, 'base64'))

const linesIn = async () => {
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  return text.split('\n').filter(Boolean).map(JSON.parse)
}

const message = record => ({
  partition: record.partition,
  key: decoded(record.key),
  value: decoded(record.value),
  timestamp: String(record.timestamp),
  headers: Object.fromEntries(record.headers.map(([name, value]) => [name, decoded(value)])),
})

const produce = async (kafka, topic, codec, acks, idempotent) => {
  if (!(codec in CODECS)) throw new Unsupported(`${codec} only with a plug-in that needs a native build`)
  if (idempotent === '1' && acks !== '-1') throw new Unsupported('kafkajs refuses idempotence with acks other than all')
  const records = await linesIn()
  const producer = kafka.producer({ idempotent: idempotent === '1', allowAutoTopicCreation: false, retry: { retries: 2 } })
  await producer.connect()
  let answers
  try {
    answers = await producer.send({
      topic, acks: Number(acks), compression: CODECS[codec], messages: records.map(message),
    })
  } finally {
    await producer.disconnect()
  }
  const base = answers && answers[0] && answers[0].baseOffset !== undefined ? Number(answers[0].baseOffset) : null
  records.forEach((record, i) => put({ partition: record.partition, offset: base === null ? null : base + i }))
}

const lookup = async (admin, topic, partition, timestamp) => {
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp))
  const ends = await admin.fetchTopicOffsets(topic)
  const of = list => list.find(entry => entry.partition === Number(partition))
  const offset = Number(of(found).offset)
  // kafkajs gives the end where no record is late enough.
  put({ offset: offset === Number(of(ends).high) ? -1 : offset, timestamp: null })
}

const withAdmin = async (kafka, action) => {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await action(admin)
  } finally {
    await admin.disconnect()
  }
}

const run = async (brokers, verb, args) => {
  const kafka = new Kafka({ brokers: [brokers], logLevel: logLevel.NOTHING, retry: { retries: 2 } })
  switch (verb) {
    case 'versions':
      return put({ client: 'kafkajs', version: require('kafkajs/package.json').version, lacks: LACKS })
    case 'create':
      return withAdmin(kafka, async admin => {
        const topics = [{ topic: args[0], numPartitions: Number(args[1]) }]
        if (!(await admin.createTopics({ topics }))) throw new Error(`topic ${args[0]} exists`)
      })
    case 'delete':
      return withAdmin(kafka, admin => admin.deleteTopics({ topics: [args[0]] }))
    case 'produce':
      return produce(kafka, ...args)
    case 'lookup':
      return withAdmin(kafka, admin => lookup(admin, ...args))
    case 'read':
      throw new Unsupported('kafkajs reads only in consumer groups, which are not served yet; librdkafka reads back')
    default:
      throw new Error(`no such verb: ${verb}`)
  }
}

run(process.argv[2], process.argv[3], process.argv.slice(4)).catch(error => {
  if (error instanceof Unsupported) return put({ unsupported: error.message })
  console.error(`${error.name}: ${error.message}`.replace(/\n/g, ' '))
  process.exitCode = 1
})
