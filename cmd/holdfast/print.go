package main

import (
	"encoding/json"
	"io"
)

// printJSON prints a document for tools.
func printJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}
