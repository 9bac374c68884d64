<?php // How php.csv was made by PHP 8.2: php php.php
$file = fopen('php.csv', 'w');
fputcsv($file, ['id', 'text']);
fputcsv($file, [1, 'a "b" \\" c']);
fclose($file);
