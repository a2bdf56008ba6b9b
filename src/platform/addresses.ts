import { type BlockList, isIP } from 'node:net';

/** The parts of Node's request that are used. `socket` is absent when an app is called without a server. */
export interface AddressedRequest {
  socket?: { remoteAddress?: string | undefined };
  headers?: Readonly<Record<string, string | string[] | undefined>>;
}

export type Addresses = ReturnType<typeof createAddresses>;

/** Who sent a request. Only the `X-Forwarded-For` of `proxies` is believed, because anyone can send that header. */
export function createAddresses(proxies: BlockList | null) {
  const isProxy = (address: string | undefined) => {
    if (address === undefined || proxies === null) return false;
    const family = isIP(address);
    return family !== 0 && proxies.check(address, family === 6 ? 'ipv6' : 'ipv4');
  };
  return {
    isProxy,
    /** The peer's address, or if the peer is a trusted proxy, the client that it names. Null: the connection is closed already. */
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
 * Each proxy adds its peer's address at the end. So the client is the rightmost address that is no trusted proxy; addresses before
 * it may be made up. If all are trusted proxies, it is the leftmost. If an element is no address, it is the proxy that added it.
 */
function believedAddress(peer: string, forwardedFor: string, isProxy: (address: string) => boolean): string {
  let believed = peer;
  for (const element of forwardedFor.split(',').reverse()) {
    const address = addressIn(element);
    if (address === null) return believed;
    believed = address;
    if (!isProxy(address)) return believed;
  }
  return believed;
}

/** The address in an element. Some proxies add the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function addressIn(element: string): string | null {
  const text = element.trim();
  let bare = text;
  if (text.startsWith('[')) bare = text.slice(1, text.indexOf(']'));
  else if (text.includes('.') && text.indexOf(':') === text.lastIndexOf(':')) bare = text.split(':')[0]!;
  return isIP(bare) === 0 ? null : plain(bare);
}

/** The address, without the IPv6 form in which an IPv6 socket shows an IPv4 address. */
function plain(address: string): string {
  return address.includes('.') && address.toLowerCase().startsWith('::ffff:')
    ? address.slice('::ffff:'.length)
    : address;
}

/** Whether only this machine can reach the host: a name or an address, IPv6 with or without brackets. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);

/** Whether nobody on the way can read what is sent there. */
export const isHttpsOrLoopback = ({ protocol, hostname }: URL): boolean =>
  protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));

/** Where a listener is reached. IPv6 with or without brackets. */
export const urlOf = (host: string, port: number): string =>
  `http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`;

/**
 * Whether the host is within one's own network, as in a cluster: a private address, a name without dots, or one that ends in `.svc`,
 * `.internal` or the like, which no public name does. `hostname` comes from a URL object, which has one spelling for each IPv4 address.
 */
export const isWithinNetwork = (hostname: string): boolean =>
  /^(10|192\.168|172\.(1[6-9]|2\d|3[01]))(\.\d+)+$/.test(hostname) ||
  /^\[f[cd][0-9a-f]{2}:/.test(hostname) ||
  /^[^.[\]]+$/.test(hostname) ||
  /\.(svc|internal|local|svc\.cluster\.local)$/.test(hostname);

/** The IPv4 address itself, or the IPv6 network of /64, which is what one subscriber gets. */
export function networkOf(address: string): string {
  const ipv4 = plain(address);
  if (!ipv4.includes(':')) return ipv4;
  const [head = '', tail = ''] = ipv4.split('%')[0]!.split('::');
  const left = groupsOf(head);
  const right = groupsOf(tail);
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  const groups = [...left, ...zeros, ...right].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}

/** Senders are told apart by network. Empty: the address is unknown. */
export function senderOf(address: string | null): string {
  return address === null ? '' : networkOf(address);
}

/** An IPv4 address at the end is two groups. Their value is not needed, because a /64 network has only the first four. */
function groupsOf(text: string): string[] {
  const groups = text.split(':').filter((group) => group !== '');
  return groups.flatMap((group) => (group.includes('.') ? ['0', '0'] : group));
}
