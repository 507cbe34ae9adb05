// kafkajs: the contract's verbs (see ../README.md). It reads only in groups: member.js.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')

const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

// kafkajs brings gzip; the others as its users add them, from packages without a native build. Not lz4js: it writes
// blocks that depend on each other, which Kafka does not read, nor do we.
const codecOf = (compress, decompress) => () => ({
  compress: async encoder => Buffer.from(await compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(await decompress(buffer)),
})
const withZstd = action => async data => {
  await zstd.init()
  return action(data)
}
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = codecOf(lz4.compressFrame, lz4.decompressFrame)
CompressionCodecs[CompressionTypes.ZSTD] = codecOf(withZstd(zstd.compress), withZstd(zstd.decompress))

class Unsupported extends Error {}

const CODECS = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
}
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

// The verb admin, but for the producer.
const adminCalls = async (admin, topic, timestamp, call) => {
  const partitions = async name => (await admin.fetchTopicMetadata({ topics: [name] })).topics[0].partitions.length
  const isListed = async name => (await admin.listTopics()).includes(name)
  const config = async (type, name, entry) => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: true, resources: [{ type, name }] })
    return resources[0].configEntries.find(one => one.configName === entry).configValue
  }
  const retention = () => config(ConfigResourceTypes.TOPIC, topic, 'retention.ms')
  const altered = async value => {
    const configEntries = [{ name: 'retention.ms', value }]
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
    return retention()
  }
  const code = promise => promise.catch(error => (error.code === undefined ? Promise.reject(error) : error.code))
  const offsets = async () => (await admin.fetchTopicOffsets(topic)).find(one => one.partition === 1)

  call('describe cluster', (await admin.describeCluster()).brokers.map(broker => broker.nodeId))
  call('list topics', await isListed(topic))
  call('describe topic', await partitions(topic))
  call('describe missing topic', await code(partitions(`${topic}-no`)))
  await admin.createTopics({ validateOnly: true, waitForLeaders: false, topics: [{ topic: `${topic}-no`, numPartitions: 1 }] })
  call('check a creation', await isListed(`${topic}-no`))
  call('describe topic config', await retention())
  call('replace topic configs', await altered('7654321000'))
  call('refused topic config', await code(altered('soon')))
  call('describe broker config', await config(ConfigResourceTypes.BROKER, '1', 'message.max.bytes'))
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  call('add partitions', await partitions(topic))
  call('earliest offset', Number((await offsets()).low))
  call('latest offset', Number((await offsets()).high))
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp))
  call('offset for a time', Number(found.find(one => one.partition === 1).offset))
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: '4' }] })
  call('delete records', Number((await offsets()).low))
}

const produceByDefault = async (brokers, topic) => {
  const producer = new Kafka({ brokers: [brokers], logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  try {
    const messages = [...Array(100).keys()].map(number => ({ value: String(number) }))
    await producer.send({ topic, messages })
    return messages.length
  } finally {
    await producer.disconnect()
  }
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
    case 'admin': {
      const call = (name, answer) => put({ call: name, answer })
      await withAdmin(kafka, admin => adminCalls(admin, ...args, call))
      return call('produce by default', await produceByDefault(brokers, `${args[0]}-default`))
    }
    case 'member':
      return require('./member.js')(brokers, ...args)
    case 'read':
      throw new Unsupported('kafkajs reads only in consumer groups; here librdkafka reads back')
    default:
      throw new Error(`no such verb: ${verb}`)
  }
}

run(process.argv[2], process.argv[3], process.argv.slice(4)).catch(error => {
  if (error instanceof Unsupported) return put({ unsupported: error.message })
  console.error(`${error.name}: ${error.message}`.replace(/\n/g, ' '))
  process.exitCode = 1
})
