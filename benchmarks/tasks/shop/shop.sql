CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, email TEXT);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL NOT NULL, stock INTEGER NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, day TEXT, status TEXT);
CREATE TABLE order_lines (order_id INTEGER REFERENCES orders, product_id INTEGER REFERENCES products, quantity INTEGER);
INSERT INTO customers VALUES
  (1, 'Blue Cafe', 'Lisbon', 'cafe@blue.example'),
  (2, 'Mara Lund', 'Oslo', 'mara@lund.example'),
  (3, 'Hotel Adler', 'Vienna', NULL),
  (4, 'Tea Society', 'Oslo', 'hello@teasociety.example'),
  (5, 'Jun Sato', 'Osaka', 'jun@sato.example');
INSERT INTO products VALUES
  (1, 'Assam', 8.9, 40),
  (2, 'Mint', 4.2, 3),
  (3, 'Sencha', 11.5, 18),
  (4, 'Jasmine', 9.8, 0),
  (5, 'Rooibos', 6.4, 25),
  (6, 'Earl Grey', 7.6, 12);
INSERT INTO orders VALUES
  (11, 1, '2026-10-28', 'sent'),
  (12, 2, '2026-11-02', 'sent'),
  (13, 3, '2026-11-02', 'open'),
  (14, 1, '2026-11-03', 'open'),
  (15, 4, '2026-11-05', 'cancelled'),
  (16, 3, '2026-11-09', 'open'),
  (17, 2, '2026-11-11', 'sent');
INSERT INTO order_lines VALUES
  (11, 1, 4),
  (11, 2, 10),
  (12, 3, 1),
  (13, 1, 20),
  (13, 6, 20),
  (14, 2, 5),
  (14, 4, 2),
  (15, 5, 3),
  (16, 3, 6),
  (16, 4, 6),
  (17, 5, 2),
  (17, 6, 1);
