package main

import (
	"go/ast"
	"go/token"
	"strconv"
	"time"
)

const (
	longLimit  = time.Minute            // and more: only a failure reaches it
	shortPause = 100 * time.Millisecond // and less, in a loop: it asks again
)

// waiting is a function that waits: which argument says how long, and what excuses a call.
type waiting struct {
	argument int
	limit    bool // a limit of longLimit
	loop     bool // a loop around it, with shortPause
	ticks    bool // shortPause alone: it makes a loop
}

var functions = map[string]waiting{
	"time.Sleep":               {loop: true},
	"time.NewTicker":           {ticks: true},
	"time.Tick":                {ticks: true},
	"time.After":               {limit: true, loop: true},
	"time.NewTimer":            {limit: true, loop: true},
	"time.AfterFunc":           {limit: true, loop: true},
	"context.WithTimeout":      {argument: 1, limit: true},
	"context.WithTimeoutCause": {argument: 1, limit: true},
}

// wait says what a node waits for, or returns "" if it waits for no wall clock.
func (f *folder) wait(n ast.Node, inLoop bool) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		compares := n.Op == token.LSS || n.Op == token.GTR || n.Op == token.LEQ || n.Op == token.GEQ
		if compares && (isCall(n.X, "time.Since") && !f.isLong(n.Y) || isCall(n.Y, "time.Since") && !f.isLong(n.X)) {
			return "a comparison with time.Since"
		}
	case *ast.CallExpr:
		called := name(n.Fun)
		if w, ok := functions[called]; ok {
			d, known := f.duration(n.Args[w.argument])
			short := known && d <= shortPause
			if w.limit && f.isLong(n.Args[w.argument]) || w.ticks && short || w.loop && short && inLoop {
				return ""
			}
			return called
		}
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && isCall(sel.X, "time.Now") && !f.isLong(n.Args[0]) {
			return "time.Now().Add"
		}
	}
	return ""
}

// isCall reports whether an expression is a call of the function.
func isCall(e ast.Expr, function string) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && name(call.Fun) == function
}

func (f *folder) isLong(e ast.Expr) bool {
	d, ok := f.duration(e)
	return ok && d >= longLimit
}

var units = map[string]time.Duration{
	"time.Nanosecond": time.Nanosecond, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
}

// duration returns the value of a constant expression of numbers, units, and constants of the folder.
func (f *folder) duration(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.duration(e.X)
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return time.Duration(n), err == nil
	case *ast.Ident, *ast.SelectorExpr:
		if value, ok := f.consts[name(e)]; ok {
			return f.duration(value)
		}
		d, ok := units[name(e)]
		return d, ok
	case *ast.CallExpr:
		if name(e.Fun) == "time.Duration" {
			return f.duration(e.Args[0])
		}
	case *ast.BinaryExpr:
		x, ok := f.duration(e.X)
		y, also := f.duration(e.Y)
		value, known := map[token.Token]time.Duration{token.MUL: x * y, token.ADD: x + y, token.SUB: x - y, token.QUO: x / max(y, 1)}[e.Op]
		return value, known && ok && also
	}
	return 0, false
}
