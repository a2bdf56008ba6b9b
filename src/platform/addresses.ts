import { type BlockList, isIP, isIPv6 } from 'node:net';

/** What is asked of a request; Node's own has it. `socket` is absent where an app is called without one. */
export interface AddressedRequest {
  socket?: { remoteAddress?: string | undefined };
  headers?: Readonly<Record<string, string | string[] | undefined>>;
}

export type Addresses = ReturnType<typeof createAddresses>;

/** Who sent a request. `proxies` are those whose `X-Forwarded-For` is believed; without any, nobody's is: anyone can send that header. */
export function createAddresses(proxies: BlockList | null) {
  const isProxy = (address: string | undefined) => {
    const family = address === undefined || proxies === null ? 0 : isIP(address);
    return family !== 0 && proxies!.check(address!, family === 6 ? 'ipv6' : 'ipv4');
  };
  return {
    isProxy,
    /** The peer's address; where that is a proxy we trust, whom it named. Null: the connection is gone already. */
    of({ socket, headers }: AddressedRequest): string | null {
      const peer = socket?.remoteAddress;
      if (peer === undefined) return null;
      if (!isProxy(peer)) return plain(peer);
      const value = headers?.['x-forwarded-for'];
      return believedAddress(plain(peer), Array.isArray(value) ? value.join(',') : (value ?? ''), isProxy);
    },
  };
}

/**
 * Each proxy adds whom it heard from at the end, so what we believe ends where a name is not a proxy's: the rightmost
 * address that is none of ours. What is before it, the sender may have written. Where all are ours: the leftmost.
 * Something that is no address: the proxy that wrote it.
 */
function believedAddress(peer: string, forwardedFor: string, isProxy: (address: string) => boolean): string {
  let believed = peer;
  let end = forwardedFor.length;
  while (end > 0) {
    const comma = forwardedFor.lastIndexOf(',', end - 1);
    const address = addressIn(forwardedFor.slice(comma + 1, end));
    if (address === null) return believed;
    believed = address;
    if (!isProxy(address)) return believed;
    end = comma;
  }
  return believed;
}

/** Some proxies add the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function addressIn(element: string): string | null {
  const text = element.trim();
  const bare = text.startsWith('[')
    ? text.slice(1, text.indexOf(']'))
    : text.includes('.') && text.indexOf(':') === text.lastIndexOf(':')
      ? text.split(':')[0]!
      : text;
  return isIP(bare) === 0 ? null : plain(bare);
}

/** An IPv4 address that an IPv6 socket shows as one of its own, as itself. */
function plain(address: string): string {
  return address.toLowerCase().startsWith('::ffff:') && address.includes('.')
    ? address.slice('::ffff:'.length)
    : address;
}

/** As the URL class has it, which turns every spelling of an IPv4 address into four decimals: whether it is this machine's alone. */
export const isLoopback = (hostname: string): boolean =>
  /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);

/** IPv6 hands out a /64 to each subscriber, so that is what counts as one address there. */
export function networkOf(address: string): string {
  const ipv4 = plain(address);
  if (!isIPv6(ipv4)) return ipv4;
  const [head = '', tail = ''] = ipv4.split('%')[0]!.split('::');
  const left = groupsOf(head);
  const right = groupsOf(tail);
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  const groups = [...left, ...zeros, ...right].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

/** An IPv4 address at the end is two groups, of which no network needs the value. */
function groupsOf(text: string): string[] {
  return text.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : group === '' ? [] : group));
}
