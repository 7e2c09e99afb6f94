package bowstring.spark.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.UUID;

/**
 * Reads one response, in the encoding of its version. Every read is checked against the end of the frame.
 *
 * <p>The bytes belong to the connection and are valid until its next response.
 */
public final class ResponseReader {
  private final ByteBuffer buffer;
  private final ApiKey api;
  private final short version;
  private final boolean flexible;

  ResponseReader(ByteBuffer buffer, ApiKey api, short version, boolean flexible) {
    this.buffer = buffer;
    this.api = api;
    this.version = version;
    this.flexible = flexible;
  }

  /** The version the request was sent in. */
  public int version() {
    return version;
  }

  /** The frame's buffer; its position is the next byte this reader reads. */
  public ByteBuffer buffer() {
    return buffer;
  }

  public byte int8() throws WireException.MalformedResponse {
    return need(1).get();
  }

  public boolean bool() throws WireException.MalformedResponse {
    return int8() != 0;
  }

  public short int16() throws WireException.MalformedResponse {
    return need(2).getShort();
  }

  public int int32() throws WireException.MalformedResponse {
    return need(4).getInt();
  }

  public long int64() throws WireException.MalformedResponse {
    return need(8).getLong();
  }

  public UUID uuid() throws WireException.MalformedResponse {
    return new UUID(int64(), int64());
  }

  /** A string, or null. */
  public String string() throws WireException.MalformedResponse {
    int length = flexible ? unsignedVarint() - 1 : int16();
    if (length < 0) {
      return null;
    }
    need(length);
    byte[] bytes = new byte[length];
    buffer.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /** The length of an array; -1 is null. An array longer than the frame is malformed, so loops over it end. */
  public int array() throws WireException.MalformedResponse {
    int length = flexible ? unsignedVarint() - 1 : int32();
    if (length > buffer.remaining()) {
      throw malformed("an array of " + length + " elements");
    }
    return length;
  }

  /** Bytes, preceded by their length; empty if they are null. */
  public byte[] bytes() throws WireException.MalformedResponse {
    byte[] value = new byte[Math.max(0, array())];
    need(value.length).get(value);
    return value;
  }

  /** The length of the records that follow; -1 is null. */
  public int recordsLength() throws WireException.MalformedResponse {
    int length = flexible ? unsignedVarint() - 1 : int32();
    if (length > 0) {
      need(length);
    }
    return length;
  }

  public void skip(int bytes) throws WireException.MalformedResponse {
    need(bytes).position(buffer.position() + bytes);
  }

  /** Skips the tagged fields that end a structure, where the version has them. */
  public void tags() throws WireException.MalformedResponse {
    tags(tag -> { });
  }

  /** Reads a tagged field, all of it or only its beginning. */
  @FunctionalInterface
  interface TaggedField {
    void read(int tag) throws WireException.MalformedResponse;
  }

  /** Reads the tagged fields that end a structure, where the version has them. */
  void tags(TaggedField field) throws WireException.MalformedResponse {
    if (!flexible) {
      return;
    }
    for (int n = unsignedVarint(); n > 0; n--) {
      int tag = unsignedVarint();
      int size = unsignedVarint();
      int end = need(size).position() + size;
      field.read(tag);
      if (buffer.position() > end) {
        throw malformed("a tagged field of " + size + " bytes that is longer");
      }
      buffer.position(end);
    }
  }

  private int unsignedVarint() throws WireException.MalformedResponse {
    int value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      byte next = int8();
      value |= (next & 0x7f) << shift;
      if (next >= 0) {
        return value;
      }
    }
    throw malformed("a variable-length number of more than five bytes");
  }

  private ByteBuffer need(int bytes) throws WireException.MalformedResponse {
    if (bytes < 0 || buffer.remaining() < bytes) {
      throw malformed("a field of " + bytes + " bytes where " + buffer.remaining() + " are left");
    }
    return buffer;
  }

  private WireException.MalformedResponse malformed(String what) {
    return new WireException.MalformedResponse("The broker's " + api + " response (version " + version + ") has " + what
        + ": is this a Kafka listener?");
  }
}
