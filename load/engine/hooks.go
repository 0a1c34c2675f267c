package engine

import (
	"context"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/hook"
	"github.com/skein-project/skein/load/reach"
)

// loadHooks compiles the modules that steps name.
func (e *Engine) loadHooks() (err error) {
	var calls []hook.Call
	for _, st := range e.o.Plan.Steps {
		if st.Hook.File != "" {
			calls = append(calls, hook.Call{File: st.Hook.File, Function: st.Hook.Call})
		}
	}
	if len(calls) > 0 {
		e.modules, err = hook.New(context.Background(), e.o.Files, calls)
	}
	return err
}

// hooked has the module of a step change what is rendered.
func (l *lane) hooked(st *load.Step, o *reach.Origin) error {
	if st.Hook.File == "" {
		return nil
	}
	// The request is not written yet: its memory has what the module gets and what it says.
	in := append(append(append(l.request[:0], st.Method...), ' '), l.target...)
	in = append(append(append(in, "\nHost: "...), o.Host...), '\n')
	for _, p := range l.pairs {
		in = append(append(append(append(in, p.name...), ": "...), l.scratch[p.begin:p.end]...), '\n')
	}
	in = append(append(in, '\n'), l.body...)
	n := len(in)
	out, err := l.u.e.modules.Call(hook.Call{File: st.Hook.File, Function: st.Hook.Call}, in, in)
	l.request = in[:0]
	if err != nil {
		return err
	}
	l.request, out = out[:0], out[n:]
	fields, body, err := hook.Answer(out)
	if err != nil {
		return err
	}
	for _, f := range fields {
		l.drop(f.Name)
		begin := len(l.scratch)
		l.scratch = append(l.scratch, f.Value...)
		l.pairs = append(l.pairs, pair{f.Name, begin, len(l.scratch)})
	}
	l.body = append(l.body[:0], body...)
	return nil
}
