import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createAddresses, networkOf } from '../src/platform/addresses.ts';
import { loadConfig } from '../src/platform/config.ts';

const addressesFor = (proxies?: string) =>
  createAddresses(loadConfig(proxies === undefined ? {} : { TRUSTED_PROXIES: proxies }).trustedProxies);

const PROXIES = '10.0.0.7, 192.168.0.0/16,fd00::/8';

test.each([
  ['nobody is trusted', undefined, '10.0.0.7', '203.0.113.9', '10.0.0.7'],
  ['the peer is no proxy', PROXIES, '203.0.113.5', '203.0.113.9', '203.0.113.5'],
  ['a proxy names nobody', PROXIES, '10.0.0.7', undefined, '10.0.0.7'],
  ['a proxy names one', PROXIES, '10.0.0.7', '203.0.113.9', '203.0.113.9'],
  ['a network is trusted', PROXIES, '192.168.77.1', '203.0.113.9', '203.0.113.9'],
  ['of IPv6', PROXIES, 'fd12::1', '2001:db8::9', '2001:db8::9'],
  ['the peer is IPv4 on an IPv6 socket', PROXIES, '::ffff:10.0.0.7', '203.0.113.9', '203.0.113.9'],
  ['the sender wrote one himself', PROXIES, '10.0.0.7', '198.51.100.1, 203.0.113.9', '203.0.113.9'],
  ['two proxies stand in a row', PROXIES, '10.0.0.7', '203.0.113.9, 192.168.1.1', '203.0.113.9'],
  [
    'the sender pretends to be a proxy',
    PROXIES,
    '10.0.0.7',
    '1.1.1.1, 203.0.113.9, 192.168.1.1',
    '203.0.113.9',
  ],
  ['all are proxies', PROXIES, '10.0.0.7', '192.168.1.2,192.168.1.1', '192.168.1.2'],
  ['what it names is no address', PROXIES, '10.0.0.7', '203.0.113.9, unknown', '10.0.0.7'],
  ['there is nothing between commas', PROXIES, '10.0.0.7', '203.0.113.9,, ,', '10.0.0.7'],
  ['a port is added', PROXIES, '10.0.0.7', '203.0.113.9:4711', '203.0.113.9'],
  ['a port is added to IPv6', PROXIES, '10.0.0.7', '[2001:db8::9]:4711', '2001:db8::9'],
  ['an address is out of range', PROXIES, '10.0.0.7', '203.0.113.256', '10.0.0.7'],
])('a request comes from whom its proxies name: %s', (_what, proxies, peer, forwardedFor, expected) => {
  const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor };
  const address = addressesFor(proxies).of({ socket: { remoteAddress: peer }, headers });
  expect(address).toBe(expected);
});

test('a connection that is gone has no address', () => {
  expect(addressesFor(PROXIES).of({ socket: {}, headers: { 'x-forwarded-for': '203.0.113.9' } })).toBeNull();
  expect(addressesFor(PROXIES).of({})).toBeNull();
});

test('whatever a header says, what comes of it is an address, and no proxy while another was named', () => {
  const addresses = addressesFor(PROXIES);
  const piece = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.constantFrom('10.0.0.7', ',', '[', ']:1', ''));
  fc.assert(
    fc.property(fc.array(piece), fc.ipV4(), (pieces, last) => {
      fc.pre(!addresses.isProxy(last));
      const socket = { remoteAddress: '10.0.0.7' };
      const of = (value: string) => addresses.of({ socket, headers: { 'x-forwarded-for': value } });
      expect(networkOf(of(pieces.join(','))!)).toMatch(/^[0-9a-f.:]+(::\/64)?$/i);
      expect(of([...pieces, last].join(','))).toBe(last);
    }),
  );
});

test.each([
  '10.0.0.0/33',
  '10.0.0.0/0',
  '::/0',
  '10.0.0.0/8/8',
  'fd00::/129',
  'proxy.internal',
  '10.0.0.0/',
  ' , ',
])('TRUSTED_PROXIES does not take %s', (value) => {
  expect(() => loadConfig({ TRUSTED_PROXIES: value })).toThrow(/^TRUSTED_PROXIES/);
});

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::ffff:127.0.0.1', '127.0.0.1'],
  ['::1', '0:0:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['unknown', 'unknown'],
])('%s counts as %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});
