package bowstring.spark.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;

/**
 * Writes one request, in the plain or flexible encoding of its version, as a list of buffers for a gathering write.
 *
 * <p>Records are not copied: {@link #records} stores where the payload goes between the written bytes. The payload must
 * not change until the request was sent.
 */
public final class RequestWriter {
  private static final int MAX_UNSIGNED_VARINT_BYTES = 5;

  final ApiKey api;
  final short version;
  final int correlationId;
  private final boolean flexible;
  private ByteBuffer buffer = ByteBuffer.allocate(512);
  private final List<Integer> payloadPositions = new ArrayList<>();
  private final List<ByteBuffer> payloads = new ArrayList<>();

  RequestWriter(ApiKey api, short version, int correlationId, String clientId) {
    this.api = api;
    this.version = version;
    this.correlationId = correlationId;
    this.flexible = api.isFlexible(version);
    int32(0).int16(api.id).int16(version).int32(correlationId);
    byte[] id = clientId.getBytes(StandardCharsets.UTF_8); // the header's client id is never compact
    int16(id.length);
    room(id.length).put(id);
    tags();
  }

  /** The version this request is written in. */
  public int version() {
    return version;
  }

  public RequestWriter int8(int value) {
    room(1).put((byte) value);
    return this;
  }

  public RequestWriter bool(boolean value) {
    return int8(value ? 1 : 0);
  }

  public RequestWriter int16(int value) {
    room(2).putShort((short) value);
    return this;
  }

  public RequestWriter int32(int value) {
    room(4).putInt(value);
    return this;
  }

  public RequestWriter int64(long value) {
    room(8).putLong(value);
    return this;
  }

  public RequestWriter uuid(UUID value) {
    return int64(value.getMostSignificantBits()).int64(value.getLeastSignificantBits());
  }

  /** A string, or null where the version allows it. */
  public RequestWriter string(String value) {
    if (value == null) {
      return flexible ? unsignedVarint(0) : int16(-1);
    }
    byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
    if (flexible) {
      unsignedVarint(bytes.length + 1);
    } else {
      int16(bytes.length);
    }
    room(bytes.length).put(bytes);
    return this;
  }

  /** Bytes, preceded by their length. */
  public RequestWriter bytes(byte[] value) {
    array(value.length); // encoded like an array's length
    room(value.length).put(value);
    return this;
  }

  /** The length of an array; -1 is null. Its elements follow. */
  public RequestWriter array(int length) {
    return flexible ? unsignedVarint(length + 1) : int32(length);
  }

  /** Record batches, preceded by their length; sent without a copy. */
  public RequestWriter records(ByteBuffer... batches) {
    int length = 0;
    for (ByteBuffer batch : batches) {
      length = Math.addExact(length, batch.remaining());
    }
    array(length); // records are nullable bytes: encoded like an array's length
    for (ByteBuffer batch : batches) {
      payloadPositions.add(buffer.position());
      payloads.add(batch.duplicate());
    }
    return this;
  }

  /** Ends a structure: writes an empty list of tagged fields if the version has them. */
  public RequestWriter tags() {
    return flexible ? unsignedVarint(0) : this;
  }

  private RequestWriter unsignedVarint(int value) {
    ByteBuffer to = room(MAX_UNSIGNED_VARINT_BYTES);
    int rest = value;
    while ((rest & ~0x7f) != 0) {
      to.put((byte) (rest & 0x7f | 0x80));
      rest >>>= 7;
    }
    to.put((byte) rest);
    return this;
  }

  private ByteBuffer room(int bytes) {
    if (buffer.remaining() < bytes) {
      ByteBuffer larger = ByteBuffer.allocate(Math.max(buffer.capacity() * 2, buffer.position() + bytes));
      larger.put(buffer.flip());
      buffer = larger;
    }
    return buffer;
  }

  /** The frame, preceded by its length: call once, after everything is written. */
  List<ByteBuffer> frame() {
    int end = buffer.position();
    long length = end - 4L;
    List<ByteBuffer> parts = new ArrayList<>(1 + 2 * payloads.size());
    int from = 0;
    for (int i = 0; i < payloads.size(); i++) {
      int to = payloadPositions.get(i);
      if (to > from) {
        parts.add(buffer.duplicate().position(from).limit(to));
        from = to;
      }
      parts.add(payloads.get(i));
      length += payloads.get(i).remaining();
    }
    if (end > from) {
      parts.add(buffer.duplicate().position(from).limit(end));
    }
    buffer.putInt(0, Math.toIntExact(length));
    return Collections.unmodifiableList(parts);
  }
}
