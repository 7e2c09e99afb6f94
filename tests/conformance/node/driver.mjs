// KafkaJS under the conformance suite's driver protocol: one JSON object a line in, one answer a line out.
import readline from 'node:readline'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const kafkajs = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')
const { Kafka, CompressionTypes, CompressionCodecs, AssignerProtocol, PartitionAssigners, logLevel } = kafkajs

// KafkaJS brings gzip alone and takes the others as plug-ins.
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: (encoder) => zstd.compress(encoder.buffer, 3),
  decompress: (buffer) => zstd.decompress(buffer),
})
const CODECS = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
}
const HANG_MS = 240_000
const ACKS = { 0: 0, 1: 1, all: -1 }
const CRC_TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1
  return byte
})

// How the clients of the next operations connect.
let security = {}
function secured() {
  const { ca, certificate, key, mechanism, username, password, token } = security
  // It authenticates again so long before the end of a session: by default ten seconds, which short ones do not have.
  const options = { reauthenticationThreshold: 300 }
  if (ca) {
    options.ssl = { ca: [readFileSync(ca)] }
    if (certificate) Object.assign(options.ssl, { cert: readFileSync(certificate), key: readFileSync(key) })
  }
  if (mechanism === 'OAUTHBEARER') {
    options.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token }) }
  } else if (mechanism) {
    options.sasl = { mechanism: mechanism.toLowerCase(), username, password }
  }
  return options
}
const kafka = (args) => new Kafka({
  ...secured(),
  clientId: 'kafkajs-driver',
  brokers: [args.bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 300, retries: 200 },
})
const pack = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const unpack = (text) => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const floodValue = (index, size) => Buffer.from(String(index).padStart(8, '0').padEnd(size, '.'))
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
const producers = new Map()
const members = new Map()

function crc32(bytes) {
  let crc = -1
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8)
  return (crc ^ -1) >>> 0
}

async function produceOpen(args) {
  // KafkaJS lets an idempotent producer have one request in flight.
  const producer = kafka(args).producer({
    idempotent: args.idempotent,
    maxInFlightRequests: args.idempotent ? 1 : null,
    createPartitioner: () => ({ message }) => message.partition,
    retry: { initialRetryTime: 50, maxRetryTime: 300, retries: 200 },
  })
  await producer.connect()
  producers.set(args.handle, { producer, acks: ACKS[args.acks], compression: CODECS[args.compression] })
}

function headersOf(record) {
  const headers = {}
  for (const [name, value] of record.headers ?? []) {
    // A name given twice becomes a list.
    headers[name] = name in headers ? [headers[name], unpack(value)].flat() : unpack(value)
  }
  return headers
}

async function produce(args) {
  const { producer, acks, compression } = producers.get(args.handle)
  const messages = args.records.map((record) => ({
    key: unpack(record.key),
    value: unpack(record.value),
    headers: headersOf(record),
    partition: record.partition ?? 0,
    timestamp: record.timestamp === undefined || record.timestamp === null ? undefined : String(record.timestamp),
  }))
  const metadata = await producer.send({ topic: args.topic, acks, compression, messages })
  // One base offset a partition: the records follow it in the order sent.
  const next = new Map((metadata ?? []).map((each) => [each.partition, Number(each.baseOffset)]))
  const results = messages.map(({ partition }) => {
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return { partition, offset }
  })
  return { results }
}

async function flood(args) {
  const { producer, acks, compression } = producers.get(args.handle)
  const began = Date.now()
  const step = args.rate_per_s ? 50 : 5000
  for (let index = 0; index < args.count; index += step) {
    const messages = []
    for (let i = index; i < Math.min(index + step, args.count); i++) {
      messages.push({ key: String(i), value: floodValue(i, args.size), partition: i % args.partitions })
    }
    await producer.send({ topic: args.topic, acks, compression, messages })
    if (args.rate_per_s) await sleep(began + (index * 1000) / args.rate_per_s - Date.now())
  }
  return { acked: args.count }
}

async function produceClose(args) {
  await producers.get(args.handle).producer.disconnect()
  producers.delete(args.handle)
}

// With KafkaJS's own settings for what is retried.
async function transact(args) {
  const own = new Kafka({ ...secured(), clientId: 'kafkajs-driver', brokers: [args.bootstrap], logLevel: logLevel.NOTHING })
  const producer = own.producer({ transactionalId: args.id, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  try {
    const transaction = await producer.transaction()
    await transaction.send({ topic: args.topic, messages: [{ value: 'in a transaction' }] })
    if (args.for_ms) {
      await new Promise((resolve) => setTimeout(resolve, args.for_ms))
      await transaction.send({ topic: args.topic, messages: [{ value: 'in a transaction' }] })
    }
    await transaction.commit()
  } finally {
    await producer.disconnect()
  }
}

class Collector {
  constructor(args) {
    Object.assign(this, { wanted: args.count, whole: !args.summary, taken: 0, records: [], bytes: 0, crc: 0 })
    this.ordered = true
    this.last = new Map()
  }

  add(partition, message) {
    if (this.taken >= this.wanted) return
    this.taken++
    if (this.whole) {
      this.records.push(recordOf(partition, message))
      return
    }
    const number = Number(message.value.subarray(0, 8).toString())
    const last = this.last.get(partition)
    if (last && (Number(message.offset) <= last[0] || number <= last[1])) this.ordered = false
    this.last.set(partition, [Number(message.offset), number])
    this.bytes += message.value.length
    this.crc = (this.crc + crc32(message.value)) >>> 0
  }

  answer() {
    if (this.whole) return { records: this.records }
    return { count: this.taken, bytes: this.bytes, crc: this.crc, ordered: this.ordered }
  }
}

function recordOf(partition, message) {
  const headers = []
  for (const [name, value] of Object.entries(message.headers ?? {})) {
    for (const each of [value].flat()) headers.push([name, pack(each)])
  }
  return {
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    timestamp_type: null,
    key: pack(message.key),
    value: pack(message.value),
    headers,
  }
}

// KafkaJS reads only as a group member: a group of its own, and a seek for every partition.
async function consume(args) {
  const consumer = kafka(args).consumer({
    groupId: `consume-${randomUUID()}`, maxBytesPerPartition: 4 << 20, maxWaitTimeInMs: 200,
  })
  const collector = new Collector(args)
  await consumer.connect()
  await consumer.subscribe({ topics: [args.topic], fromBeginning: true })
  const full = new Promise((resolve) => {
    consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: true,
      eachBatch: async ({ batch }) => {
        if (!args.partitions.includes(batch.partition)) return
        for (const message of batch.messages) collector.add(batch.partition, message)
        if (collector.taken >= collector.wanted) resolve()
      },
    })
    if (args.offset !== 'earliest') {
      for (const partition of args.partitions) {
        consumer.seek({ topic: args.topic, partition, offset: String(args.offset) })
      }
    }
  })
  await Promise.race([full, sleep(args.timeout_ms)])
  // Disconnecting waits for the fetch under way.
  await consumer.disconnect()
  return collector.answer()
}

async function withAdmin(args, operation) {
  const admin = kafka({ ...args }).admin({ retry: { retries: 5, initialRetryTime: 50 } })
  await admin.connect()
  try {
    return await operation(admin)
  } finally {
    await admin.disconnect()
  }
}

async function bounds(args) {
  const offsets = await withAdmin(args, (admin) => admin.fetchTopicOffsets(args.topic))
  const found = offsets.find((each) => each.partition === args.partition)
  return { earliest: Number(found.low), latest: Number(found.high) }
}

async function join(args) {
  const assigner = PartitionAssigners.roundRobin
  const consumer = kafka(args).consumer({
    groupId: args.group,
    sessionTimeout: args.session_timeout_ms,
    rebalanceTimeout: 10000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 100,
    partitionAssigners: [assigner],
    // A broker restart crashes the runner; KafkaJS starts it again when told so.
    retry: { initialRetryTime: 50, maxRetryTime: 300, retries: 200, restartOnFailure: async () => true },
  })
  const member = { consumer, assignment: [], records: [], lost: [], position: new Map() }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const now = []
    for (const [topic, partitions] of Object.entries(payload.memberAssignment)) {
      for (const partition of partitions) now.push([topic, partition])
    }
    const owned = new Set(now.map(String))
    member.lost.push(...member.assignment.filter((each) => !owned.has(String(each))))
    member.assignment = now.sort((a, b) => a[1] - b[1])
  })
  members.set(args.handle, member)
  await consumer.connect()
  await consumer.subscribe({ topics: args.topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      member.records.push([topic, partition, Number(message.offset), pack(message.value)])
      member.position.set(`${topic} ${partition}`, { topic, partition, offset: String(Number(message.offset) + 1) })
    },
  })
}

async function memberState(args) {
  const { assignment, records, lost } = members.get(args.handle)
  return { assignment, records, lost }
}

async function commit(args) {
  const { consumer, position } = members.get(args.handle)
  await consumer.commitOffsets([...position.values()])
}

async function leave(args) {
  await members.get(args.handle).consumer.disconnect()
  members.delete(args.handle)
}

const TOPIC = kafkajs.ConfigResourceTypes.TOPIC
// Not KafkaJS's own waitForLeaders: it gives up when Kafka's metadata do not have the topic yet.
const leadersOf = async (admin, topic) => {
  const until = Date.now() + HANG_MS
  let missing
  while (Date.now() < until) {
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      if (topics[0].partitions.every((partition) => partition.leader >= 0)) return
      missing = new Error(`a partition of ${topic} has no leader`)
    } catch (error) {
      if (!['UNKNOWN_TOPIC_OR_PARTITION', 'LEADER_NOT_AVAILABLE'].includes(error.type)) throw error
      missing = error
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw missing
}
const ADMIN = {
  create_topic: (admin, args) => admin.createTopics({
    waitForLeaders: false,
    topics: [{
      topic: args.topic,
      numPartitions: args.partitions,
      replicationFactor: 1,
      configEntries: Object.entries(args.configs ?? {}).map(([name, value]) => ({ name, value })),
    }],
  }).then((created) => {
    // KafkaJS answers false, not an error, for a topic that exists.
    if (!created) throw Object.assign(new Error('TOPIC_ALREADY_EXISTS'), { code: 36 })
    return leadersOf(admin, args.topic)
  }),
  delete_topic: (admin, args) => admin.deleteTopics({ topics: [args.topic] }),
  create_partitions: (admin, args) =>
    admin.createPartitions({ topicPartitions: [{ topic: args.topic, count: args.count }] }),
  list_topics: async (admin) => {
    const { topics } = await admin.fetchTopicMetadata()
    return { topics: Object.fromEntries(topics.map((each) => [each.name, each.partitions.length])) }
  },
  topic_configs: async (admin, args) => {
    const { resources } = await admin.describeConfigs({ resources: [{ type: TOPIC, name: args.topic }] })
    return {
      configs: Object.fromEntries(resources[0].configEntries.map((each) => [each.configName, each.configValue])),
    }
  },
  alter_topic_configs: (admin, args) => admin.alterConfigs({
    resources: [{
      type: TOPIC,
      name: args.topic,
      configEntries: Object.entries(args.configs).map(([name, value]) => ({ name, value })),
    }],
  }),
  delete_records: async (admin, args) => {
    // KafkaJS looks for the leader in metadata that it has, so something must have asked for it.
    await admin.fetchTopicOffsets(args.topic)
    const partitions = [{ partition: args.partition, offset: String(args.before) }]
    await admin.deleteTopicRecords({ topic: args.topic, partitions })
  },
  list_groups: async (admin) => ({ groups: (await admin.listGroups()).groups.map((each) => each.groupId) }),
  describe_group: async (admin, args) => {
    const { groups } = await admin.describeGroups([args.group])
    return { state: groups[0].state, members: groups[0].members.length }
  },
  delete_group: (admin, args) => admin.deleteGroups([args.group]),
  committed: async (admin, args) => {
    const [found] = await admin.fetchOffsets({ groupId: args.group, topics: [args.topic] })
    const offsets = new Map(found.partitions.map((each) => [each.partition, Number(each.offset)]))
    return { offsets: args.partitions.map((each) => (offsets.get(each) >= 0 ? offsets.get(each) : null)) }
  },
  offsets_for_times: async (admin, args) => {
    const offsets = []
    for (const timestamp of args.timestamps) {
      const found = await admin.fetchTopicOffsetsByTimestamp(args.topic, timestamp)
      const each = found.find((where) => where.partition === args.partition)
      offsets.push(Number(each.offset) < 0 ? null : Number(each.offset))
    }
    return { offsets }
  },
}
async function greet(args) {
  const own = new Kafka({
    ...secured(), clientId: 'kafkajs-driver', brokers: [args.bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 0 },
  })
  const admin = own.admin()
  await admin.connect()
  try {
    return { brokers: (await admin.describeCluster()).brokers.length }
  } finally {
    await admin.disconnect()
  }
}

// The client of schema registries that KafkaJS's authors made.
async function frame({ framing: { url, subject, schema, kind, value } }) {
  const { SchemaRegistry } = require('@kafkajs/confluent-schema-registry')
  const registry = new SchemaRegistry({ host: url })
  const { id } = await registry.register({ type: kind, schema }, { subject })
  return { id, data: pack(await registry.encode(id, value)) }
}

async function unframe({ framing: { url, data } }) {
  const { SchemaRegistry } = require('@kafkajs/confluent-schema-registry')
  return { value: await new SchemaRegistry({ host: url }).decode(unpack(data)) }
}

const operations = {
  frame, unframe,
  secure: async (args) => { security = args.security },
  greet,
  produce_open: produceOpen, produce, flood, produce_close: produceClose, transact, consume, bounds, join,
  member: memberState, commit, leave,
}
for (const [name, operation] of Object.entries(ADMIN)) {
  operations[name] = (args) => withAdmin(args, (admin) => operation(admin, args))
}

// KafkaJS wraps what the broker said: in its retrier's error, and in one that lists topics, groups or partitions.
function rootCause(error) {
  const inner = error.errors?.[0] ?? error.groups?.[0]?.error ?? error.partitions?.[0]?.error ?? error.cause
  return inner ? rootCause(inner) : error
}

function failure(error) {
  const cause = rootCause(error)
  const code = typeof cause.code === 'number' ? cause.code : null
  return { code, message: `${cause.name}: ${cause.message}` }
}

const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })
for await (const line of lines) {
  const request = JSON.parse(line)
  let answer
  try {
    answer = { id: request.id, ok: (await operations[request.op](request.args)) || {} }
  } catch (error) {
    answer = { id: request.id, error: failure(error) }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
process.exit(0)
