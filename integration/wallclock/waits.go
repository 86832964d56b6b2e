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

// wait says what a node waits for, or returns "" if it waits for no wall clock.
func (f *folder) wait(n ast.Node, inLoop bool) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.GTR, token.LEQ, token.GEQ:
			if isSince(n.X) && !f.isLong(n.Y) || isSince(n.Y) && !f.isLong(n.X) {
				return "a comparison with time.Since"
			}
		}
	case *ast.CallExpr:
		called := name(n.Fun)
		switch called {
		case "time.Sleep", "time.NewTicker", "time.Tick":
			if d, ok := f.duration(n.Args[0]); ok && d <= shortPause && (inLoop || called != "time.Sleep") {
				return ""
			}
			return called
		case "time.After", "time.NewTimer", "time.AfterFunc":
			d, ok := f.duration(n.Args[0])
			if ok && (d >= longLimit || d <= shortPause && inLoop) {
				return ""
			}
			return called
		case "context.WithTimeout", "context.WithTimeoutCause":
			if f.isLong(n.Args[1]) {
				return ""
			}
			return called
		}
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && isNow(sel.X) && len(n.Args) == 1 && !f.isLong(n.Args[0]) {
			return "time.Now().Add"
		}
	}
	return ""
}

func isNow(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && name(call.Fun) == "time.Now"
}

func isSince(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && name(call.Fun) == "time.Since"
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
		if d, ok := units[name(e)]; ok {
			return d, true
		}
		if value, ok := f.consts[name(e)]; ok {
			return f.duration(value)
		}
	case *ast.CallExpr:
		if name(e.Fun) == "time.Duration" && len(e.Args) == 1 {
			return f.duration(e.Args[0])
		}
	case *ast.BinaryExpr:
		x, ok := f.duration(e.X)
		y, also := f.duration(e.Y)
		if !ok || !also {
			return 0, false
		}
		switch e.Op {
		case token.MUL:
			return x * y, true
		case token.ADD:
			return x + y, true
		case token.SUB:
			return x - y, true
		case token.QUO:
			return x / max(y, 1), true
		}
	}
	return 0, false
}
