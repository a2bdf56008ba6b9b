import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const root = new URL('../../', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, root), 'utf8');

interface Service {
  image?: string;
  build?: string;
  deploy?: { replicas: number };
  depends_on?: Record<string, { condition: string }>;
  environment?: Record<string, string>;
  secrets?: string[];
  ports?: string[];
  volumes?: string[];
  healthcheck?: object;
}
const file = parse(read('compose.yaml'), { strict: true, uniqueKeys: true }) as {
  services: Record<'postgres' | 'mirror' | 'balancer', Service>;
  volumes: Record<string, unknown>;
  secrets: Record<string, { file: string }>;
};
const { postgres, mirror, balancer } = file.services;
const balancing = read('docs/load-balancer.conf');

/** No engine runs it here: what a reader would look for is looked for. */
describe('compose.yaml', () => {
  it('starts one database, two replicas that wait for it, and a balancer that waits for them', () => {
    expect(Object.keys(file.services)).toEqual(['postgres', 'mirror', 'balancer']);
    expect(mirror.deploy?.replicas).toBe(2);
    expect(mirror.depends_on).toEqual({ postgres: { condition: 'service_healthy' } });
    expect(balancer.depends_on).toEqual({ mirror: { condition: 'service_healthy' } });
    expect(postgres.healthcheck).toBeDefined();
    expect(read('Dockerfile')).toContain('HEALTHCHECK');
  });

  it('names a version of every image, and opens no port but to this machine', () => {
    for (const { image, build } of Object.values(file.services)) {
      expect(build ?? image).toMatch(build === undefined ? /:\d+(\.\d+)*(-\w+)?$/ : /^\.$/);
    }
    expect(postgres.ports ?? mirror.ports).toBeUndefined();
    expect(balancer.ports?.every((port) => port.startsWith('127.0.0.1:'))).toBe(true);
  });

  it('gives the replicas settings that there are, and only secrets that it declares and says how to make', () => {
    const settings = read('src/config.ts');
    for (const name of Object.keys(mirror.environment!)) {
      expect(settings, name).toContain(`'${name.replace(/_FILE$/, '')}'`);
    }
    const declared = Object.keys(file.secrets);
    const used = [...mirror.secrets!, ...postgres.secrets!];
    expect(used.toSorted()).toEqual(declared.toSorted());
    for (const [name, path] of Object.entries(mirror.environment!)) {
      if (name.endsWith('_FILE')) expect(used).toContain(path.replace('/run/secrets/', ''));
    }
    for (const name of declared) {
      expect(file.secrets[name]?.file).toBe(`./secrets/${name}`);
      expect(read('compose.yaml')).toMatch(new RegExp(`^#.*secrets/${name}\\b`, 'm'));
    }
    expect(read('.dockerignore')).not.toMatch(/^!.*secrets/m);
    expect(read('.gitignore')).toMatch(/^\/?secrets/m);
  });

  it('leads each of its ports to the listener of the same port on the replicas', () => {
    const [mounted] = balancer.volumes!.map((volume) => volume.split(':')[0]!);
    expect(existsSync(new URL(mounted!, root))).toBe(true);
    expect(mounted).toBe('./docs/load-balancer.conf');
    const upstreams = new Map(
      [...balancing.matchAll(/upstream (\w+) \{[^}]*server mirror:(\d+) /g)].map(([, name, port]) => [
        name,
        port,
      ]),
    );
    const servers = [...balancing.matchAll(/listen (\d+);[\s\S]*?proxy_pass http:\/\/(\w+);/g)];
    expect(servers.map(([, port, name]) => [port, upstreams.get(name)])).toEqual([
      ['8080', '8080'],
      ['8081', '8081'],
    ]);
    expect(balancer.ports).toEqual(['127.0.0.1:8080:8080', '127.0.0.1:8081:8081']);
    expect(balancing.split('{').length).toBe(balancing.split('}').length);
  });
});
