import { type Clock, sharedClock, systemClock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';

/** The clock that the service's instants are of: the database's where several processes share it, else this machine's. */
export async function clockOf(store: Pick<Store, 'sharedTime'>): Promise<Clock> {
  const own = systemClock();
  if ((await store.sharedTime(null)) === null) return own;
  const read = async () => (await store.sharedTime(null)) ?? { wall: own.wall(), steady: own.steady() };
  return await sharedClock(read, { ...own, monotonic: () => performance.now() });
}
