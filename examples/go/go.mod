module translate

go 1.19
