-- +goose Up
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL);
