CREATE TABLE memory_fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE memory_source (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  size INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  digest BLOB NOT NULL,
  imports TEXT NOT NULL,
  stars TEXT NOT NULL,
  problem TEXT NOT NULL,
  rule TEXT NOT NULL
);
-- Lists are lines. The two lowest bits of an id are the kind, so that a search tells kinds apart by it.
CREATE TABLE memory_definition (
  id INTEGER PRIMARY KEY,
  source INTEGER NOT NULL,
  class TEXT NOT NULL,
  name TEXT NOT NULL,
  first_line INTEGER NOT NULL,
  line INTEGER NOT NULL,
  last_line INTEGER NOT NULL,
  decorators TEXT NOT NULL,
  instantiated TEXT NOT NULL,
  bases TEXT NOT NULL,
  uses TEXT NOT NULL,
  body BLOB NOT NULL,
  shape BLOB NOT NULL,
  apis TEXT NOT NULL,
  symbols TEXT NOT NULL,
  doc TEXT NOT NULL,
  comment TEXT NOT NULL
);
CREATE INDEX memory_definition_source ON memory_definition (source);
-- What follows from a test's helpers and from the rules, so that it is written alone when they change.
CREATE TABLE memory_test (definition INTEGER PRIMARY KEY, content BLOB NOT NULL, rule TEXT NOT NULL);
-- Of a test: which words and code it was made of, and the direction that it points to.
CREATE TABLE memory_vector (definition INTEGER PRIMARY KEY, text BLOB NOT NULL, vector BLOB NOT NULL);
-- What models answered, by the text that they were asked about: kept when a tree is indexed anew.
CREATE TABLE IF NOT EXISTS memory_answer (
  kind TEXT NOT NULL,
  model TEXT NOT NULL,
  prompt BLOB NOT NULL,
  text BLOB NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (text, kind, model, prompt)
) WITHOUT ROWID;
CREATE TABLE memory_variant (
  id INTEGER PRIMARY KEY,
  definition INTEGER,
  file TEXT NOT NULL,
  class TEXT NOT NULL,
  method TEXT NOT NULL,
  variant TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype TEXT NOT NULL,
  device TEXT NOT NULL,
  node TEXT NOT NULL,
  line INTEGER NOT NULL
);
CREATE INDEX memory_variant_definition ON memory_variant (definition, op, dtype);
CREATE INDEX memory_variant_file ON memory_variant (file);
CREATE INDEX memory_variant_op ON memory_variant (op, definition);
CREATE INDEX memory_variant_dtype ON memory_variant (dtype, definition);
-- Token lists, made of a definition's row: the index holds no text of its own.
CREATE VIRTUAL TABLE memory_search USING fts5(name, path, decorators, apis, symbols, doc, content='', tokenize="ascii tokenchars '_.:'");
-- How often the index has a word, so that a search knows which are rare.
CREATE TABLE memory_word (word TEXT PRIMARY KEY, entries INTEGER NOT NULL) WITHOUT ROWID;
