import { networkOf } from '../platform/addresses.ts';
import type { CountedRejection, Rejection } from '../store/store.ts';

export const MINUTE_MS = 60_000;
/** Of one reason, sender and minute, written as they come: whoever tries a setting sees each of his attempts. */
const FIRST = 2;
/** Senders told apart in a minute, for each reason; the others share one place. Bounds the writing: 99 rows a minute and reason. */
const MAX_SENDERS = 32;

/** The rejections of one (reason, sender) in the minute under way. */
interface Place {
  seen: number;
  newest: Rejection | null;
}

export interface RejectionSampler {
  /** What is to be written now: this one, nothing, or what a minute that has ended still held. `steady`: milliseconds. */
  note(rejection: Rejection, steady: number): CountedRejection[];
  /** Ends the minute: the newest of each place, counting for all that were not written. */
  close(): CountedRejection[];
}

/**
 * Which rejections are worth a row. Anyone can cause one, and each costs a write, so only so many are kept. What must not
 * be lost is the real sender's, whose secret is wrong, while a stranger sends thousands that have the very same reason.
 * By their bytes the two cannot be told apart, as long as no secret fits. By where they come from they can: an address
 * is the one thing of a rejection that a stranger cannot choose at will. So each minute has, for each reason, a place for
 * each sender (an IPv4 address, or an IPv6 network of the size that one subscriber gets), and a place keeps the first two
 * and the newest. A flood from one address fills its own place; a flood of one reason takes nothing from another. Where
 * more senders than `MAX_SENDERS` come in a minute, the later ones share a place: a real sender that tries again for hours
 * comes early in one of them. Behind a proxy that is not in TRUSTED_PROXIES all senders have its address.
 */
export function createRejectionSampler(): RejectionSampler {
  let minute = Number.NaN;
  let reasons = new Map<string, Map<string, Place>>();

  function close(): CountedRejection[] {
    const held = [...reasons.values()].flatMap((places) => [...places.values()]);
    reasons = new Map();
    return held.flatMap(({ seen, newest }) => (newest === null ? [] : { ...newest, times: seen - FIRST }));
  }

  return {
    close,
    note(rejection, steady) {
      const now = Math.floor(steady / MINUTE_MS);
      const before = now === minute ? [] : close();
      minute = now;
      const places = reasons.get(rejection.reason) ?? new Map<string, Place>();
      reasons.set(rejection.reason, places);
      const network = senderOf(rejection.address);
      const sender = places.has(network) || places.size < MAX_SENDERS ? network : 'others';
      const place = places.get(sender) ?? { seen: 0, newest: null };
      places.set(sender, place);
      place.seen += 1;
      if (place.seen <= FIRST) return [...before, { ...rejection, times: 1 }];
      place.newest = rejection;
      return before;
    },
  };
}

/** What stands for a sender: its network; empty where it is not known. */
export function senderOf(address: string | null): string {
  return address === null ? '' : networkOf(address);
}
