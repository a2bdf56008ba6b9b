import { defineConfig } from 'drizzle-kit';

export default defineConfig({
  dialect: 'postgresql',
  schema: './test/store/postgres-tables.cjs',
  out: './drizzle/postgres',
});
