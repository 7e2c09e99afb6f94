package bowstring.spark.wire;

import java.io.Serializable;

/** A transaction that somebody has to end: the name of its producer, the producer's id and its epoch. */
public record OpenTransaction(String transactionalId, long producerId, short epoch) implements Serializable {
  private static final long serialVersionUID = 1L;
}
