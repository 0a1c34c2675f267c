package engine

import (
	"context"
	"fmt"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/hook"
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
		e.modules, err = hook.New(context.Background(), e.o.Hooks, calls)
	}
	if err != nil {
		return &RefusedError{err}
	}
	return nil
}

// hooked has the module of a step change what is rendered.
func (l *lane) hooked(st *load.Step, o *origin) error {
	if st.Hook.File == "" {
		return nil
	}
	in := fmt.Appendf(nil, "%s %s\nHost: %s\n", st.Method, l.target, o.Host)
	for _, p := range l.pairs {
		in = fmt.Appendf(in, "%s: %s\n", p.name, l.scratch[p.begin:p.end])
	}
	in = append(append(in, '\n'), l.body...)
	out, err := l.u.e.modules.Call(l.u.e.hard, hook.Call{File: st.Hook.File, Function: st.Hook.Call}, in)
	if err != nil {
		return err
	}
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
