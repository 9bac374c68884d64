# How r_table.tsv was made by R 4.2: Rscript r_table.R.

table <- data.frame(f = c(0.5, NA), s = c("a", "b,\"q\""))
write.table(table, "r_table.tsv", sep = "\t")
