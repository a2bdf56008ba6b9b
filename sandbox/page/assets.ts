import { createHash } from 'node:crypto';
import { Hono } from 'hono';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';

interface Asset {
  path: string;
  type: string;
  text: string;
}

/** The name changes with the content, so that a browser may keep each for good. */
function asset(extension: string, type: string, text: string): Asset {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 12);
  return { path: `/assets/page.${hash}.${extension}`, type, text };
}

export const styleSheet = asset('css', 'text/css; charset=utf-8', STYLE);
export const script = asset('js', 'text/javascript; charset=utf-8', SCRIPT);

export function assetRoutes(): Hono {
  const routes = new Hono();
  for (const { path, type, text } of [styleSheet, script]) {
    const headers = { 'content-type': type, 'cache-control': 'public, max-age=31536000, immutable' };
    routes.get(path, (c) => c.body(text, 200, headers));
  }
  return routes;
}
