package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "The version of this program", Args: exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			body := struct {
				APIVersion string `json:"api_version"`
				Version    string `json:"version"`
				GoVersion  string `json:"go_version"`
			}{api.APIVersion, a.version, runtime.Version()}
			return a.show(view{
				body: body,
				page: func(w io.Writer) { fmt.Fprintf(w, "skein %s %s\n", body.Version, body.GoVersion) },
				table: func(form) table {
					t := table{head: []string{"VERSION", "GO", "API"}}
					t.add(body.Version, body.GoVersion, body.APIVersion)
					return t
				},
			})
		},
	}
}
