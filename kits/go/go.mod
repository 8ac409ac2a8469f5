module eigentime

go 1.23
