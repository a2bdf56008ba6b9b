import { Hono } from 'hono';
import { hc } from 'hono/client';
import type { OpsEnv } from '../access.ts';
import type { Api } from './app.ts';
import type { ApiClient } from './client.ts';

/** The API in this process, for `name`, who may change whatever it takes. What it rejects with comes as it is. */
export function apiHere(api: Api, name: string): ApiClient {
  const app = new Hono<OpsEnv>();
  app.onError((error) => {
    throw error;
  });
  app.use(async (c, next) => {
    c.set('identity', { name, role: 'operate', csrf: null });
    await next();
  });
  app.route('/', api);
  const send: typeof fetch = async (address, init) => await app.request(String(address), init);
  return hc<Api>('http://localhost', { fetch: send }).api;
}
