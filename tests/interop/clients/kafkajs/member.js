// The verb member: one consumer in a group, until the input closes. kafkajs is eager, without static members.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const COMMIT_MS = 200

// Errors come as log lines: what the group's begin with -> the error's name.
const NAMES = {
  'The coordinator is not aware of this member': 'UNKNOWN_MEMBER_ID',
  'Specified group generation id is not valid': 'ILLEGAL_GENERATION',
  'The group is rebalancing': 'REBALANCE_IN_PROGRESS',
}
const nameOf = text => NAMES[Object.keys(NAMES).find(start => text.startsWith(start))] || text

const put = (event, fields) => process.stdout.write(
  JSON.stringify({ at: Number(process.hrtime.bigint()), event, ...fields }) + '\n')

const lines = () => new Promise(resolve => process.stdin.once('data', resolve))
const end = () => new Promise(resolve => process.stdin.once('end', resolve).resume())

module.exports = async (brokers, groupId, topic, protocol, instance, sessionTimeout, heartbeatInterval) => {
  const logCreator = () => ({ log }) => {
    const error = String(log.error || log.message)
    if (nameOf(error) !== 'REBALANCE_IN_PROGRESS') put('error', { error: nameOf(error) })
  }
  const kafka = new Kafka({ brokers: [brokers], logLevel: logLevel.ERROR, logCreator, retry: { initialRetryTime: 50 } })
  const consumer = kafka.consumer({
    groupId, sessionTimeout: Number(sessionTimeout), heartbeatInterval: Number(heartbeatInterval), rebalanceTimeout: 30000,
    maxWaitTimeInMs: 100,
  })
  let owned = []
  let isEnding = false
  const received = new Map() // And not committed.

  const give = () => {
    if (owned.length > 0) put('revoked', { partitions: owned })
    owned = []
    received.clear()
  }
  consumer.on(consumer.events.REBALANCING, give)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    give()
    owned = payload.memberAssignment[topic] || []
    if (owned.length > 0) put('assigned', { partitions: owned })
  })
  const commit = async () => {
    const offsets = Object.fromEntries(received)
    if (received.size === 0) return
    try {
      await consumer.commitOffsets(Object.entries(offsets).map(
        ([partition, offset]) => ({ topic, partition: Number(partition), offset: String(offset) })))
    } catch (error) {
      return put('refused', { error: error.type || nameOf(error.message) })
    }
    for (const [partition, offset] of Object.entries(offsets)) {
      if (received.get(Number(partition)) === offset) received.delete(Number(partition))
    }
    put('committed', { offsets })
  }

  put('ready')
  await lines()
  const ended = end()
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let due = Date.now()
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isStale }) => {
      for (const message of batch.messages) {
        if (isEnding || isStale() || !owned.includes(batch.partition)) return
        put('record', { partition: batch.partition, offset: Number(message.offset) })
        received.set(batch.partition, Number(message.offset) + 1)
        resolveOffset(message.offset)
      }
      if (Date.now() >= due) {
        due = Date.now() + COMMIT_MS
        await commit()
      }
      await heartbeat()
    },
  })
  await ended
  isEnding = true
  await commit() // stop() leaves the group.
  await consumer.stop()
  await consumer.disconnect()
  put('closed')
}
