package bowstring.spark.values;

import java.util.Arrays;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The keys of a row of a map, to find repeated ones. Few keys are compared one by one; many use a hash table, so that
 * no value is slow to read.
 */
final class MapKeys {
  private static final int FEW = 8;

  private final ValueColumn keys;
  private int first;
  private int count;
  private long[] places = new long[FEW];
  private int[] table = new int[0];

  MapKeys(ValueColumn keys) {
    this.keys = keys;
  }

  /** Begins another row, with items from {@code firstItem} on. */
  void begin(int firstItem) {
    first = firstItem;
    count = 0;
  }

  /**
   * Adds the next item.
   *
   * @param place where its entry begins
   * @return where the entry with the same key began before it, or -1
   */
  long add(long place) {
    int item = count++;
    if (item >= places.length) {
      places = Arrays.copyOf(places, places.length * 2);
    }
    places[item] = place;
    if (item < FEW) {
      for (int other = 0; other < item; other++) { // the first of several equal ones represents all
        if (same(first + other, first + item)) {
          return replace(other, place);
        }
      }
      return -1;
    }
    if (item == FEW || 2 * count > table.length) {
      rehash(item);
    }
    int other = slot(item);
    return other < 0 ? -1 : replace(other, place);
  }

  private long replace(int other, long place) {
    long before = places[other];
    places[other] = place; // in case the key comes a third time
    return before;
  }

  private void rehash(int items) {
    int size = Integer.highestOneBit(Math.max(items, FEW)) * 4;
    table = new int[size];
    for (int item = 0; item < items; item++) {
      slot(item);
    }
  }

  /** Stores the item; returns the earlier one with the same key, or -1. */
  private int slot(int item) {
    int mask = table.length - 1;
    for (int at = hash(first + item) & mask; ; at = (at + 1) & mask) {
      if (table[at] == 0) {
        table[at] = item + 1;
        return -1;
      }
      int other = table[at] - 1;
      if (same(first + other, first + item)) {
        return other;
      }
    }
  }

  private int hash(int item) {
    int code = isText() ? keys.getUTF8String(item).hashCode() : Long.hashCode(number(item) * 0x9E3779B97F4A7C15L);
    return code ^ code >>> 16;
  }

  private boolean same(int one, int other) {
    if (isText()) {
      UTF8String text = keys.getUTF8String(one);
      return text.equals(keys.getUTF8String(other));
    }
    return number(one) == number(other);
  }

  private boolean isText() {
    return keys instanceof BytesColumn;
  }

  private long number(int item) {
    return keys instanceof DecimalColumn ? keys.getDecimal(item, 20, 0).toJavaBigDecimal().longValue() : keys.getLong(item);
  }
}
