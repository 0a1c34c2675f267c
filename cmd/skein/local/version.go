package local

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func versionCommand(a *cli.App, d Options) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "The version of this program", Args: cli.Exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			body := struct {
				APIVersion string `json:"api_version"`
				Version    string `json:"version"`
				GoVersion  string `json:"go_version"`
			}{api.APIVersion, d.Version, runtime.Version()}
			return a.Show(cli.View{
				Body: body,
				Page: func(w io.Writer) { fmt.Fprintf(w, "skein %s %s\n", body.Version, body.GoVersion) },
				Table: func() present.Table {
					t := present.NewTable("VERSION", "GO", "API")
					t.Add(body.Version, body.GoVersion, body.APIVersion)
					return t
				},
			})
		},
	}
}
