//go:build js && wasm

// Wasm runs the scene in a browser. Ten times a second it posts the state as JSON. When the page
// posts the name of an action, it runs the action.
package main

import (
	"encoding/json"
	"syscall/js"
	"time"

	"github.com/holdfast-io/holdfast/integration/playground/scene"
)

const frame = 100 * time.Millisecond

func main() {
	s, err := scene.Start()
	if err != nil {
		panic(err)
	}
	actions := map[string]func(){
		"end":      s.EndSession,
		"pause":    s.Pause,
		"cut":      s.Cut,
		"kill":     s.Kill,
		"forward":  func() { s.StepClock(10 * time.Minute) },
		"backward": func() { s.StepClock(-10 * time.Minute) },
		"elect":    func() { s.Elect(5 * time.Minute) },
		"tour":     s.Tour,
	}
	js.Global().Set("onmessage", js.FuncOf(func(_ js.Value, args []js.Value) any {
		go actions[args[0].Get("data").String()]() // in the background, because a callback must not block
		return nil
	}))
	for range time.Tick(frame) {
		state, err := json.Marshal(s.State())
		if err != nil {
			panic(err)
		}
		js.Global().Call("postMessage", string(state))
	}
}
