package main

import (
	"encoding/json"
	"io"
)

// printJSON prints doc as indented JSON.
func printJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}
